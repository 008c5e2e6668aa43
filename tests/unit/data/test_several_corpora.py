"""Several training corpora: each pair as often as configured, and reports by corpus."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from seq2attn.config.load import dump, load
from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.collate import make_batch
from seq2attn.data.data_config import DataConfig
from seq2attn.data.inspection import DataReport
from seq2attn.data.prepare import prepare
from seq2attn.data.prepared_data import PREPARED, PreparedData, load_prepared
from seq2attn.errors import ConfigError, DataError, RunError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from seq2attn.tokenizers.vocabulary import UNK
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.bert import make_bert
from tests.support.corpora import write_corpus
from tests.support.trainings import content

WORDS = TokenizersConfig(source=WordTokenizerConfig(), target=WordTokenizerConfig())
STOCHASTIC = TokenizersConfig(joint=BPETokenizerConfig(vocab_size=300, dropout=0.5))
Pairs = list[tuple[str, str]]
A, B = {"kind": "tsv", "path": "a.tsv"}, {"kind": "tsv", "path": "b.tsv", "tag": "2en"}
TAG = "`data.dev.tag`: no corpus of `data.train` has the tag `2de`; known: `2en`"
REFERENCES = {"kind": "plain", "source": "a", "target": "b", "references": ["c"]}
WORDPIECE = "`data.train`: has a `tag`, for which the vocabulary of `wordpiece` has no"


def corpus(folder: Path, name: str, pairs: Pairs, links: list[str] | None = None, **options: Any) -> dict[str, Any]:
    return {**write_corpus(folder, name, pairs, links).model_dump(), **options}


def numbered_pairs(letter: str, count: int) -> Pairs:
    """Distinct pairs of different lengths."""
    return [(f"{letter}{number} " + "x " * (number % 5), f"{letter}{number} y") for number in range(count)]


def data_config(folder: Path, *train: dict[str, Any], **options: Any) -> DataConfig:
    dev = options.pop("dev", None) or corpus(folder, "dev", numbered_pairs("a", 3))
    return DataConfig.model_validate({"train": list(train), "dev": dev, **options})


def first_words(prepared: PreparedData, epoch: int) -> list[str]:
    """The first word of each source in the batches of two processes."""
    train = prepared.train
    corpus, rows = train.epoch_corpus(1, epoch), train.rows(1, epoch)
    return [
        prepared.source.decode(corpus[rows[row]][0]).split()[0]
        for rank in (0, 1)
        for batch in plan_batches(corpus.lengths[rows], tokens=30, seed=1, epoch=epoch, rank=rank, num_ranks=2)
        for row in batch
    ]


@pytest.mark.parametrize("text", [WORDS, STOCHASTIC])
def test_each_pair_is_in_an_epoch_as_often_as_configured(tmp_path: Path, text: TokenizersConfig) -> None:
    data = data_config(
        tmp_path,
        corpus(tmp_path, "a", numbered_pairs("a", 20)),
        corpus(tmp_path, "b", [*numbered_pairs("b", 7), ("", "empty"), *numbered_pairs("c", 4)], repeat=3),
        corpus(tmp_path, "d", numbered_pairs("d", 10), repeat=2.5),
        corpus(tmp_path, "e", numbered_pairs("e", 30), repeat=0.3),
    )
    prepared = prepare(data, text, tmp_path / "run", lambda line: None)
    samples = []
    for epoch in (0, 1):
        words = first_words(prepared, epoch)
        assert words == first_words(load_prepared(tmp_path / "run"), epoch)
        counts = {
            letter: sorted(words.count(f"{letter}{number}") for number in range(size))
            for letter, size in {"a": 20, "b": 7, "c": 4, "d": 10, "e": 30}.items()
        }
        expected = {"a": [1] * 20, "b": [3] * 7, "c": [3] * 4, "d": [2] * 5 + [3] * 5, "e": [0] * 21 + [1] * 9}
        assert counts == expected
        assert len(words) == 20 + 33 + 25 + 9
        samples.append(sorted(word for word in words if word[0] in "de"))
    assert samples[0] != samples[1]
    assert prepared.train.rows(1, 0).tolist() != prepared.train.rows(2, 0).tolist()


def test_duplicates_in_earlier_corpora(tmp_path: Path) -> None:
    first, second = corpus(tmp_path, "a", numbered_pairs("a", 9)), corpus(tmp_path, "b", numbered_pairs("a", 12))
    filters = {"drop_duplicates": True}
    configs = {
        "dropped": data_config(tmp_path, first, second, filters=filters),
        "kept": data_config(tmp_path, first, second),
        "tagged": data_config(tmp_path, first, {**second, "tag": "other"}, filters=filters),
    }
    counts = [
        [part.report.num_kept for part in prepare(data, WORDS, tmp_path / name, str).train.parts]
        for name, data in configs.items()
    ]
    assert counts == [[9, 3], [9, 12], [9, 12]]


def test_the_log_has_lines_by_corpus(tmp_path: Path) -> None:
    log: list[str] = []
    data = data_config(
        tmp_path,
        corpus(tmp_path, "a", [*numbered_pairs("a", 20), ("left out", "")], tag="news"),
        corpus(tmp_path, "b", numbered_pairs("b", 5), repeat=4),
        dev=corpus(tmp_path, "dev", numbered_pairs("b", 3), tag="news"),
    )
    prepared = prepare(data, WORDS, tmp_path / "run", log.append)
    assert log[0] == "train 1: 21 pairs, train 2: 5 pairs, dev: 3 pairs"
    assert [line.split(":")[0] for line in log if line.endswith("and the tags <news>")] == ["source"]
    shares = [
        "train 1: kept 20 of 21 pairs; left out: 1 empty; each 1 times an epoch, 50.0% of its pairs",
        "train 2: kept 5 of 5 pairs; each 4 times an epoch, 50.0% of its pairs",
    ]
    assert [line for line in log if " times an epoch" in line] == shares
    report = DataReport.load(tmp_path / "run")
    assert report is not None and report.dev.num_in_train == 3  # with any tag
    assert report.train.num_pairs == 26
    assert prepared.dev_sources[0].startswith("<news> b0")
    assert prepared.source.tags and not prepared.source.requires_tag  # `b` has no tag
    assert prepared.source.encode("news") == [UNK]  # no tokenizer is trained on tags


@pytest.mark.parametrize("text", [WORDS, STOCHASTIC])
def test_attention_targets_of_the_corpora_with_links(tmp_path: Path, text: TokenizersConfig) -> None:
    linked = corpus(tmp_path, "a", [("one two three", "drei zwei eins")] * 2, ["0-2 1-1 2-0", ""], tag="2de")
    unlinked = corpus(tmp_path, "b", [("four five", "vier fünf")])
    train = prepare(data_config(tmp_path, unlinked, linked), text, tmp_path / "run", str).train
    epoch = train.epoch_corpus(1, 0)
    targets = make_batch(epoch, range(3)).alignment_targets
    assert targets is not None and not targets[0].any() and not targets[2].any()
    source, target = epoch[1]
    tokenizers = train.tokenizers
    source_words, target_words = np.array(tokenizers.source.word_ids(source)), tokenizers.target.word_ids(target)
    assert tokenizers.source.convert_ids_to_tokens(source)[0] == "<2de>" and source_words.max() == 3
    for row, word in enumerate(target_words):
        assert set(source_words[targets[1, row, : len(source)].numpy() > 0]) == {3 - word}  # shifted by the tag


@pytest.mark.parametrize(
    ("source", "repeat", "message"),
    [
        ("", 1, r"empty\.source: no pair is left to train on: kept 0 of 2 pairs"),
        ("text", 0.1, r"empty\.source: kept 2 of 2 pairs, and `repeat: 0.1` of these is less than one pair"),
    ],
)
def test_a_corpus_without_a_pair_is_an_error(tmp_path: Path, source: str, repeat: float, message: str) -> None:
    empty = corpus(tmp_path, "empty", [(source, "x"), (source, "y")], repeat=repeat)
    with pytest.raises(DataError, match=message):
        prepare(
            data_config(tmp_path, corpus(tmp_path, "a", numbered_pairs("a", 9)), empty), WORDS, tmp_path / "run", str
        )


def experiment(folder: Path, data: dict[str, Any], **changes: Any) -> Path:
    values = {**content(folder, "run"), "data": {"dev": {"kind": "tsv", "path": "dev.tsv"}, **data}, **changes}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": [A, {**B, "repet": 2}]}, "unknown key `data.train.1.repet`; did you mean `repeat`?"),
        ({"train": [A, {**B, "repeat": 0}]}, "`data.train.1.repeat` should be greater than 0, not 0"),
        ({"train": {**A, "kind": "tvs"}}, "`data.train` has no kind `tvs`; did you mean `tsv`?"),
        ({"train": []}, "`data.train` is empty; give at least one"),
        ({"train": [A, {**B, "tag": "<2en>"}]}, "`data.train.1.tag`: string should match pattern"),
        ({"train": {**A, "tag": "unk"}}, "`data.train.tag`: `<unk>` is a special token; use another name"),
        ({"train": [A, B], "dev": {**A, "tag": "2de"}}, TAG),
        ({"train": A, "test": {"t": {**A, "tag": "x"}}}, "`data.test.t.tag`: no corpus of `data.train` has the tag"),
        ({"train": A, "dev": {**A, "repeat": 2}}, "`data.dev.repeat`: is for `train`"),
        ({"train": REFERENCES}, "`data.train.references`: are for `dev` and `test`"),
        ({"train": [A, B]}, WORDPIECE),
    ],
)
def test_config_errors_have_their_place(tmp_path: Path, data: dict[str, Any], message: str) -> None:
    if message == WORDPIECE:
        make_bert(tmp_path / "bert", ["one", "two"])
    source = {"kind": "wordpiece", "path": "bert"} if message == WORDPIECE else {"kind": "words"}
    with pytest.raises(ConfigError) as error:
        load(experiment(tmp_path, data, tokenizer={"source": source, "target": {"kind": "words"}}), ExperimentConfig)
    assert message in str(error.value)
    assert f"{tmp_path / 'config.yaml'}:" in str(error.value)


def test_the_configs_of_the_docs_are_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/data.md").read_text(encoding="utf-8")
    sections = [yaml.safe_load(block.split("```")[0])["data"] for block in page.split("```yaml\n")[1:3]]
    one, several = (load(experiment(tmp_path, section), ExperimentConfig).data for section in sections)
    assert {name: test.kind for name, test in one.test.items()} == {"news": "tsv", "talks": "plain"}
    expected = [("plain", "news", 3), ("tsv", "subtitles", 0.25), ("jsonl", None, 1)]
    assert [(corpus.kind, corpus.tag, corpus.repeat) for corpus in several.train] == expected


def test_counts_that_do_not_add_up_are_errors(tmp_path: Path) -> None:
    prepare(data_config(tmp_path, corpus(tmp_path, "a", numbered_pairs("a", 9))), WORDS, tmp_path / "run", str)
    path = tmp_path / "run" / PREPARED
    path.write_text(path.read_text(encoding="utf-8").replace('"num_kept": 9', '"num_kept": 8'), encoding="utf-8")
    with pytest.raises(RunError, match="its corpora do not add up to the pairs of"):
        load_prepared(tmp_path / "run")


@pytest.mark.parametrize("train", [A, [A], [A, {**B, "repeat": 2.5}]])
def test_a_dumped_config_is_loaded_unchanged(tmp_path: Path, train: Any) -> None:
    first = load(experiment(tmp_path, {"train": train}), ExperimentConfig)
    assert len(first.data.train) == (len(train) if isinstance(train, list) else 1)
    (tmp_path / "again.yaml").write_text(dump(first), encoding="utf-8")
    assert load(tmp_path / "again.yaml", ExperimentConfig) == first
    if len(first.data.train) == 1:  # one corpus is a mapping, of which a key can be set
        other = load(tmp_path / "again.yaml", ExperimentConfig, ["data.train.path=/other.tsv"])
        assert other.data.train[0].files == (Path("/other.tsv"),)


def test_a_vocabulary_that_both_sides_share_has_the_tags_on_both(tmp_path: Path) -> None:
    """With tied embeddings, tables of different sizes would end the training."""
    model = BPETokenizerConfig(vocab_size=280).train(word for pair in numbered_pairs("a", 9) for word in pair).model
    (tmp_path / "spm.model").write_bytes(model)
    side = {"kind": "sentencepiece", "path": tmp_path / "spm.model"}
    text = TokenizersConfig.model_validate({"source": side, "target": side})
    data = data_config(tmp_path, corpus(tmp_path, "a", numbered_pairs("a", 9), tag="news"))
    prepared = prepare(data, text, tmp_path / "run", print)
    assert prepared.source.vocabulary == prepared.target.vocabulary and prepared.source.encode("<news>")


@pytest.mark.parametrize("tags", [("news", None), (None, "news"), ("news", "news")])
def test_tags_of_another_run_are_required_if_all_text_has_one(
    tmp_path: Path, tags: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    first = corpus(tmp_path, "a", numbered_pairs("a", 9), tag="news")
    more = corpus(tmp_path, "b", numbered_pairs("b", 9), **({"tag": tags[0]} if tags[0] else {}))
    prepare(data_config(tmp_path, first, more), TokenizersConfig(joint=WordTokenizerConfig()), tmp_path / "one", print)
    options = {"tag": tags[1]} if tags[1] else {}
    data = data_config(tmp_path, corpus(tmp_path, "a", numbered_pairs("a", 9), **options))
    text = TokenizersConfig.model_validate({"run_dir": "~/one"})
    prepared = prepare(data, text, tmp_path / "two", print)
    assert prepared.source.tags and prepared.source.requires_tag == (tags[1] is not None)
