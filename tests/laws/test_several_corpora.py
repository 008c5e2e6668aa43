"""Training on several corpora equals training on their repeated lines; resumed equals uninterrupted."""

from functools import partial

import pytest

from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.training.train import train
from tests.support.trainings import BPE_DROPOUT, assert_exact_resume, assert_same, content, last_weights, metrics


def train_on(folder, run, corpora, *, resume=False, **options):
    config = content(folder, run, **options)
    config["data"]["train"] = corpora
    return train(ExperimentConfig.model_validate(config), resume=resume)


def part(folder, name, start, stop, times=1, **options):
    """Lines of the training text as a corpus, each written `times` times."""
    files = {}
    for side, end in (("source", "src"), ("target", "tgt")):
        lines = (folder / f"train.{end}").read_text().splitlines()[start:stop]
        files[side] = folder / f"{name}.{end}"
        files[side].write_text("".join(f"{line}\n" * times for line in lines))
    return {"kind": "plain", **{side: str(file) for side, file in files.items()}, **options}


def test_repeated_corpora_equal_repeated_lines(corpus):
    # The automatic warm-up is a tenth of the updates of an epoch.
    options = {"max_duration": ["1 epoch"], "batch": {"tokens": 32}, "lr_schedule": {"kind": "inverse-sqrt"}}
    first, second = part(corpus, "first", 0, 30), part(corpus, "second", 30, 48)
    repeated = train_on(corpus, "repeated", [first, {**second, "repeat": 3}], **options)
    options["tokenizer"] = {"run_dir": str(repeated.folder)}  # repeated lines would give another order of words
    written = train_on(corpus, "written", [first, part(corpus, "thrice", 30, 48, 3)], **options)
    once = train_on(corpus, "once", [first, second], **options)
    assert metrics(repeated) == metrics(written) != metrics(once)
    assert_same(last_weights(repeated), last_weights(written))


@pytest.mark.slow
def test_resumed_training_equals_uninterrupted(corpus):
    first = part(corpus, "first", 0, 30, repeat=0.5, tag="half")
    corpora = [first, part(corpus, "second", 30, 48, repeat=1.5, tag="more")]
    validation = {"every": "7 updates", "metric": "loss"}  # an epoch has fewer
    options = {"tokenizer": BPE_DROPOUT, "batch": {"tokens": 160}, "report_every": 1, "validation": validation}
    assert_exact_resume(corpus, 14, train=partial(train_on, corpora=corpora), **options)
