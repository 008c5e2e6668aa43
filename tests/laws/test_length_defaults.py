"""Maximum lengths by the tokens: of a search by the training text, of filters by the tokenizers; and longer lines."""

import random
import sys

import numpy as np
import pytest
import yaml

from seq2attn.data.corpus import Corpus
from seq2attn.data.prepared_data import load_prepared
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.training.resolve import resolve_length_ratio
from seq2attn.training.train import train
from seq2attn.training.validation import split_pairs
from tests.support.commands import invoke_in, run_process
from tests.support.trainings import MODELS, WORD_TOKENIZERS, WORDS, content, log_of, metrics, train_run, write_corpus

CHARACTERS = {"source": {"kind": "words"}, "target": {"kind": "characters"}}
BPE = {"joint": {"kind": "bpe", "vocab_size": 300}}
LENGTHS = ["max_length", "max_length_ratio"]


@pytest.fixture
def long_words(corpus):
    """Target words of about ten letters, and of one token where tokens are words."""
    for path in corpus.glob("*.tgt"):
        path.write_text("".join(" ".join(3 * word for word in line.split()) + "\n" for line in path.open()))
    return corpus


def lengths_of(folder, tokenizer, **sections):
    """What `prepare` says, and the filters and the search of its config."""
    (folder / "config.yaml").write_text(yaml.safe_dump(content(folder, "run", tokenizer=tokenizer) | sections))
    said = invoke_in(folder, "prepare", "config.yaml").err
    config = RunDirectory(folder / "run").load_config()
    return said, config.data.filters.max_lengths, [getattr(config.search.lengths, name) for name in LENGTHS]


@pytest.mark.parametrize("tokenizer", [WORD_TOKENIZERS, BPE])
def test_the_usual_lengths_are_kept(corpus, tokenizer):
    said, filters, search = lengths_of(corpus, tokenizer)
    assert (filters, search) == ((256, 256), [256, 3.0]) and "warning" not in said and "search" not in said


def test_the_search_can_produce_the_targets_of_smaller_tokens(long_words):
    said, filters, (longest, ratio) = lengths_of(long_words, CHARACTERS)
    lengths = load_prepared(long_words / "run").train.corpus.lengths
    assert (filters, longest) == ((256, 1024), 1024) and "warning" not in said
    assert 3 < ratio <= 2 * lengths[:, 1].sum() / lengths[:, 0].sum() + 0.05
    assert f"at most {ratio} tokens" in said
    assert (lengths[:, 1] <= np.floor(ratio * lengths[:, 0]) + 10).all()


def test_values_of_the_config_are_kept_with_a_warning(long_words):
    search = {"kind": "greedy", "lengths": {"max_length": 31, "max_length_ratio": 2}}
    said, _, found = lengths_of(long_words, CHARACTERS, search=search)
    source, target = load_prepared(long_words / "run").train.corpus.lengths.T
    cut = (target > 31) | (target > 2 * source + 10)
    assert found == [31, 2] and f"warning: {cut.sum()} of the {len(cut)} training targets" in said
    assert f"`max_length: {target.max()}`" in said
    search["lengths"] = {"max_length_ratio": None}
    said, _, found = lengths_of(long_words, CHARACTERS, search=search)
    assert found == [1024, None] and "training targets" not in said


def test_noise_does_not_change_the_ratio_of_similar_tokens_and_is_reported():
    lengths = np.full((2000, 2), 10)
    lengths[:2, 1] = 41  # a thousandth is not reported
    search = BeamConfig()
    resolved, notes = resolve_length_ratio(search, lengths)
    assert resolved.lengths.max_length_ratio == 3.0 and not notes
    lengths[:4, 1] = 41
    resolved, (note,) = resolve_length_ratio(search, lengths)
    assert resolved.lengths.max_length_ratio == 3.0
    assert note.startswith("warning: 4 of the 2,000") and "`max_length_ratio: 3.1`" in note
    short = BeamConfig(lengths=LengthsConfig(min_length=11))
    _, (note,) = resolve_length_ratio(short, lengths)
    assert note.startswith("warning: 2,000 of the 2,000")


def test_a_ratio_is_resolved_once(long_words):
    """Validation, the run, and its resumption with more text have the ratio of the first session."""
    options = {
        "tokenizer": CHARACTERS,
        "max_duration": ["2 updates"],
        "validation": {"every": "2 updates", "metric": "loss"},
    }
    run = train_run(long_words, "run", **options)
    first = run.load_config().search.lengths.max_length_ratio
    write_corpus(long_words, train=60, dev=6, max_words=2)
    values = content(long_words, "run", **options | {"max_duration": ["4 updates"]})
    train(ExperimentConfig.model_validate(values), resume=True, new_dev_set=True)
    assert run.load_config().search.lengths.max_length_ratio == first > 3
    assert "max_length_ratio`" not in log_of(run)


def test_lines_of_characters_may_be_longer_and_those_of_subwords_may_not(corpus):
    line = " ".join(random.Random(1).choices(WORDS, k=200))  # more than 256 characters, and fewer than 1,024
    for name in ("train.src", "train.tgt"):
        with (corpus / name).open("a") as file:
            file.write(line + "\n")
    for tokenizer, kept in ((CHARACTERS, 49), ({"joint": {"kind": "characters"}}, 49), (BPE, 48)):
        lengths_of(corpus, tokenizer)
        assert len(load_prepared(corpus / "run").train.corpus) == kept
    lengths_of(corpus, CHARACTERS, data=content(corpus, "run")["data"] | {"filters": {"max_length": [199, 1024]}})
    assert len(load_prepared(corpus / "run").train.corpus) == 48


def write_long_line(folder, num_words):
    """Makes line 4 of the dev set long."""
    for name in ("dev.src", "dev.tgt"):
        lines = (folder / name).read_text().splitlines()
        lines[3] = " ".join(random.Random(name).choices(WORDS, k=num_words))
        (folder / name).write_text("".join(line + "\n" for line in lines))


def test_prepare_names_the_longest_line_of_the_dev_set(corpus):
    write_long_line(corpus, 300)
    said, *_ = lengths_of(corpus, WORD_TOKENIZERS)
    assert "warning: dev: 1 pair with more tokens than `data.filters.max_length`" in said
    assert f"the longest at {corpus}/dev.src:4, 300 source and 300 target tokens" in said
    data = content(corpus, "run")["data"] | {"filters": {"max_length": 300}}
    assert "warning" not in lengths_of(corpus, WORD_TOKENIZERS, data=data)[0]


def test_the_loss_of_a_long_line_is_that_of_its_parts(corpus):
    """Lines that are not much longer than those of the training are not cut."""
    options = {"max_duration": ["2 updates"], "filters": {"max_length": 9}}
    write_long_line(corpus, 24)  # the square root of 9 times the 64 tokens of a batch
    losses = [validation_loss(corpus, "whole", **options)]
    write_long_line(corpus, 60)
    losses.append(validation_loss(corpus, "long", **options))
    for name in ("dev.src", "dev.tgt"):
        lines = [line.split() for line in (corpus / name).read_text().splitlines()]
        parts = [line[n : n + 20] for line in lines for n in range(0, len(line), 20)]
        (corpus / name).write_text("".join(" ".join(part) + "\n" for part in parts))
    losses.append(validation_loss(corpus, "parts", **options))
    assert losses[1] == pytest.approx(losses[2], rel=1e-6) and losses[0] != pytest.approx(losses[1], rel=1e-6)
    corpus = Corpus.from_pairs([([4] * 24, [5] * 3), ([6] * 49, [7, 8]), ([], [])], 9)
    parts = [([4] * 24, [5] * 3), ([6] * 17, [7]), ([6] * 16, [8]), ([6] * 16, []), ([], [])]
    assert [*split_pairs(corpus, [0, 1, 2], 24)] == parts


def validation_loss(folder, run, filters, **training):
    values = content(folder, run, **training)
    values["data"]["filters"] = filters
    return metrics(train(ExperimentConfig.model_validate(values)), "validation")[0]["loss"]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["recurrent", "transformer"])
def test_a_line_of_the_dev_set_does_not_take_all_memory(corpus, model):
    write_long_line(corpus, 20_000)
    validation = {"every": "1 update", "metric": "bleu"}
    values = content(corpus, "run", model=MODELS[model], max_duration=["1 update"], validation=validation)
    (corpus / "config.yaml").write_text(yaml.safe_dump(values))
    code = "import resource, sys; from seq2attn.cli import app; app(sys.argv[1:], standalone_mode=False); print("
    code += "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = run_process(corpus, [sys.executable, "-c", code, "train", "config.yaml"])
    assert done.code == 0 and int(done.out.split()[-1]) < 1.5e6, done.err  # attention of all tokens alone takes 1.6 GB
