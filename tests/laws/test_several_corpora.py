"""Training on several corpora is training on their lines, each as often as asked; interrupted or not."""

from __future__ import annotations

from seq2attn.experiment import ExperimentConfig
from seq2attn.training.train import train
from tests.laws.small import BPE_DROPOUT, WORDS, assert_same, content, corpus, last_weights, metrics

__all__ = ["corpus"]  # a fixture


def trained_on(folder, run, corpora, *, resume=False, **options):
    config = content(folder, run, **options)
    config["data"]["train"] = corpora
    return train(ExperimentConfig.model_validate(config), resume=resume)


def part(folder, name, start, stop, times=1, **options):
    """Lines of the training text as a corpus, each so many times."""
    files = {}
    for side, end in (("source", "src"), ("target", "tgt")):
        lines = (folder / f"train.{end}").read_text().splitlines()[start:stop]
        files[side] = folder / f"{name}.{end}"
        files[side].write_text("".join(f"{line}\n" * times for line in lines))
    return {"kind": "plain", **{side: str(file) for side, file in files.items()}, **options}


def test_to_repeat_is_to_write_each_line_as_often(corpus):
    (corpus / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))
    known = {"kind": "words", "vocab_file": str(corpus / "words.txt")}
    options = {"tokenizer": {"source": known, "target": known}, "max_duration": ["1 epoch"]}
    first = part(corpus, "first", 0, 30)
    corpora = [first, part(corpus, "second", 30, 48, repeat=3)]
    repeated = trained_on(corpus, "repeated", corpora, **options)
    written = trained_on(corpus, "written", [first, part(corpus, "thrice", 30, 48, 3)], **options)
    once = trained_on(corpus, "once", [first, part(corpus, "second", 30, 48)], **options)
    assert metrics(repeated) == metrics(written) != metrics(once)
    assert_same(last_weights(repeated), last_weights(written))


def test_stopped_and_resumed_is_never_stopped(corpus):
    corpora = [
        part(corpus, "first", 0, 30, repeat=0.5, tag="half"),
        part(corpus, "second", 30, 48, repeat=1.5, tag="more"),
    ]
    validation = {"every": "7 updates", "metric": "loss"}  # an epoch has fewer
    options = {"tokenizer": BPE_DROPOUT, "batch": {"tokens": 160}, "report_every": 1, "validation": validation}
    whole = trained_on(corpus, "whole", corpora, max_duration=["14 updates"], **options)
    trained_on(corpus, "parts", corpora, max_duration=["7 updates"], **options)
    parts = trained_on(corpus, "parts", corpora, max_duration=["14 updates"], resume=True, **options)
    assert metrics(parts) == metrics(whole)
    assert_same(last_weights(parts), last_weights(whole))
