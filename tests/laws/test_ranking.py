"""Which checkpoint is best: measured rightly, ranked by today's metric, never compared with values of another."""

from __future__ import annotations

import math

import pytest
import sacrebleu
import torch

from seq2attn.data.prepare import load_prepared
from seq2attn.errors import RunError, TrainingInterrupted
from seq2attn.experiment import ExperimentConfig
from seq2attn.inference.translator import Translator
from seq2attn.io.weights import load_tensors
from seq2attn.training.checkpoints.averaging import average_run
from seq2attn.training.checkpoints.checkpoint import Checkpoint, list_checkpoints
from seq2attn.training.checkpoints.retention import best_checkpoints, comparable_checkpoints
from seq2attn.training.distributed import init_distributed
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.train_state import TrainState
from seq2attn.training.validation import Validator
from tests.laws.small import assert_same, content, corpus, metrics, trained

__all__ = ["corpus"]  # a fixture

HARDLY = {"kind": "sgd", "lr": 1e-12}
KEEP = {"keep_last": 9, "keep_best": 2}


def every(unit="2 updates", **options):
    return {"every": unit, **options}


# ---------------------------------------------------------------------- what is measured


@pytest.fixture
def measured(corpus):
    """A prepared run whose references are no text that its tokenisers give back, and a function that validates it."""
    (corpus / "dev.tgt").write_text("ba ba ba ba ba, zzzz  xyz\n" * 6)
    run = trained(corpus, "run", max_duration=["6 updates"], optimizer={"kind": "adam", "lr": 0.1})
    model, _, _ = run.load_model()

    def validate(model=model, **training):
        config = ExperimentConfig.model_validate(content(corpus, "run", **training))
        with init_distributed(torch.device("cpu")) as world:
            objective = TrainingLoss(model, config.training.label_smoothing)
            validator = Validator(config.training, config.evaluation, load_prepared(run.folder), world)
            return validator, validator.validate(objective)

    return corpus, validate


def test_scores_are_of_the_text_as_it_was_written(measured):
    corpus, validate = measured
    model, _, target = load_run(corpus).load_model()
    with torch.no_grad():
        model.output_projection.bias[target.encode("ba")[0]] = 1e4  # it says nothing else
    _, found = validate(model, validation=every(metric="bleu"))
    hypotheses = [found.translations[row] for row in range(6)]
    references = [(corpus / "dev.tgt").read_text().split("\n")[:6]]
    assert found.scores["bleu"] == sacrebleu.corpus_bleu(hypotheses, references).score > 0
    assert found.scores["chrf"] == sacrebleu.corpus_chrf(hypotheses, references).score > 0
    assert found.scores["exact"] == 0


def test_loss_is_smoothed_and_perplexity_is_not(measured):
    _, validate = measured
    (_, smoothed), (_, plain) = (validate(label_smoothing=share) for share in (0.3, 0.0))
    assert smoothed.scores["perplexity"] == plain.scores["perplexity"]
    assert plain.scores["perplexity"] == pytest.approx(math.exp(plain.scores["loss"]))
    assert smoothed.scores["loss"] != pytest.approx(plain.scores["loss"], rel=1e-3)


def test_what_no_metric_needs_is_not_translated(measured):
    _, validate = measured
    _, found = validate(validation=every(metric="loss", samples=2))
    assert set(found.scores) == {"loss", "perplexity"} and set(found.translations) == {0, 5}
    _, found = validate(validation=every(metric="loss", samples=0))
    assert not found.translations
    _, found = validate(validation=every(metric="exact", samples=0))
    assert set(found.scores) == {"loss", "perplexity", "bleu", "chrf", "exact"}
    assert len(found.translations) == 6


def test_some_sentences_are_measured_as_if_there_were_no_others(measured):
    corpus, validate = measured
    validator, few = validate(validation=every(metric="chrf", max_sentences=3))
    assert set(few.translations) == {0, 2, 5}
    whole = {name: (corpus / f"dev.{name}").read_text().split("\n") for name in ("src", "tgt")}
    for name, lines in whole.items():
        (corpus / f"dev.{name}").write_text("".join(lines[row] + "\n" for row in (0, 2, 5)))
    again = trained(corpus, "few", max_duration=["1 update"])
    config = ExperimentConfig.model_validate(content(corpus, "few", validation=every(metric="chrf")))
    with init_distributed(torch.device("cpu")) as world:
        alone = Validator(config.training, config.evaluation, load_prepared(again.folder), world)
        found = alone.validate(TrainingLoss(load_run(corpus).load_model()[0], config.training.label_smoothing))
    assert found.scores == pytest.approx(few.scores)
    assert alone.digest == validator.digest
    assert validate(validation=every(metric="chrf"))[0].digest != validator.digest


def load_run(corpus):
    from seq2attn.run_directory import RunDirectory

    return RunDirectory(corpus / "run")


def test_the_digest_is_of_all_that_scores_depend_on(measured):
    corpus, validate = measured
    base = validate(validation=every(metric="bleu"))[0].digest
    assert validate(validation=every(metric="chrf", samples=1, patience=2))[0].digest == base
    assert validate(label_smoothing=0.2)[0].digest != base
    config = content(corpus, "run") | {"evaluation": {"lowercase": True}}
    config = ExperimentConfig.model_validate(config)
    with init_distributed(torch.device("cpu")) as world:
        other = Validator(config.training, config.evaluation, load_prepared(corpus / "run"), world)
    assert other.digest != base


def test_a_model_that_never_ends_is_cut_off_by_the_references(measured):
    _, validate = measured
    config = validate()[0]
    model = load_run(config.prepared.train.text_path.parents[2]).load_model()[0]
    with torch.no_grad():
        model.output_projection.bias[2:4] = -1e4  # it never ends
    validator, found = validate(model, validation=every(metric="bleu"))
    tokens = max(len(validator.prepared.target.encode(text)) for text in found.translations.values())
    longest = max(len(validator.prepared.target.encode(line)) for line in validator.prepared.dev_references[0])
    assert tokens == longest + longest // 2 + 10 < 7 * 3 + 10


# ---------------------------------------------------------------------- ranking


def checkpoint(update, digest="a", **scores):
    return Checkpoint(None, TrainState(update, validation_digest=digest, scores=scores), {}, {}, {})


def test_the_metric_ranks_then_the_loss_then_the_newer():
    every = [
        checkpoint(1, loss=3.0, bleu=5.0, chrf=9.0),
        checkpoint(2, loss=2.0, bleu=0.0, chrf=8.0),
        checkpoint(3, loss=1.0, bleu=0.0, chrf=7.0),
        checkpoint(4, loss=1.0, bleu=0.0, chrf=7.0),
    ]
    expected = {"bleu": [1, 4, 3, 2], "chrf": [1, 2, 4, 3], "loss": [4, 3, 2, 1]}
    for metric, updates in expected.items():
        for order in (every, every[::-1]):
            assert [c.train_state.update for c in best_checkpoints(order, 4, metric)] == updates


def test_only_what_was_measured_alike_is_compared():
    every = [
        checkpoint(1, loss=1.0),
        checkpoint(2, loss=1.0, bleu=9.0),
        checkpoint(3, "b", loss=0.5, bleu=99.0),
    ]
    assert [c.train_state.update for c in comparable_checkpoints(every, "bleu", "a")] == [2]
    assert [c.train_state.update for c in comparable_checkpoints(every, "loss", "a")] == [1, 2]


def test_of_validations_that_are_equal_the_newest_translates_and_patience_ends(corpus):
    run = trained(
        corpus,
        "run",
        max_duration=["99 updates"],
        optimizer=HARDLY,
        validation=every(patience=2, metric="bleu"),
    )
    found = metrics(run, "validation")
    assert [line["update"] for line in found] == [2, 4, 6]
    assert len({(line["bleu"], line["loss"]) for line in found}) == 1
    assert run.weights_origin()["checkpoints"] == ["00000006"]


def unspaced(corpus):
    """Targets without spaces: words of 13a are whole lines, and no line is right."""
    for name in ("train", "dev"):
        path = corpus / f"{name}.tgt"
        path.write_text(path.read_text().replace(" ", ""))
    return {"tokenizer": {"source": {"kind": "words"}, "target": {"kind": "characters"}}}


def test_where_bleu_is_zero_the_loss_decides_and_it_is_told(corpus):
    options = unspaced(corpus) | {"validation": every(metric="bleu"), "checkpoints": KEEP}
    run = trained(corpus, "run", max_duration=["8 updates"], **options)
    found = metrics(run, "validation")
    assert {line["bleu"] for line in found} == {0.0}
    losses = {line["update"]: line["loss"] for line in found}
    assert list(losses.values()) == sorted(losses.values(), reverse=True)
    assert run.weights_origin()["checkpoints"] == ["00000008"]
    log = (run.folder / "train.log").read_text().split("\n")
    (place,) = [number for number, line in enumerate(log) if "BLEU is 0.00 in two validations" in line]
    assert "validation at update 4" in log[place - 1]
    assert "`evaluation.tokenize`" in log[place] and "chrf or loss" in log[place] and "train longer" in log[place]


def test_zeros_of_another_metric_or_loss_are_not_warned_about(corpus):
    options = unspaced(corpus) | {"max_duration": ["6 updates"]}
    chrf = trained(corpus, "chrf", validation=every(metric="chrf"), **options)
    worse = trained(corpus, "worse", validation=every(metric="bleu"), optimizer=HARDLY, **options)
    for run in (chrf, worse):
        assert "BLEU is 0.00" not in (run.folder / "train.log").read_text()


# ---------------------------------------------------------------------- another metric


def test_a_change_of_metric_ranks_anew_and_is_told(corpus):
    first = {"max_duration": ["8 updates"], "checkpoints": KEEP, "optimizer": {"kind": "adam", "lr": 0.3}}
    run = trained(corpus, "run", validation=every("1 update", metric="chrf", patience=9), **first)
    kept = {c.train_state.update: c for c in list_checkpoints(run.folder)}
    by_chrf = max(kept, key=lambda update: kept[update].train_state.scores["chrf"])
    by_loss = min(kept, key=lambda update: kept[update].train_state.scores["loss"])
    assert by_chrf != by_loss and run.weights_origin()["checkpoints"] == [kept[by_chrf].folder.name]
    trained(corpus, "run", resume=True, validation=every("1 update", metric="loss", patience=9), **first)
    origin = run.weights_origin()
    assert (origin["checkpoints"], origin["metric"]) == ([kept[by_loss].folder.name], "loss")
    assert_same(load_tensors(run.weights_path), load_tensors(kept[by_loss].model_path))
    log = (run.folder / "train.log").read_text()
    assert f"and patience restarts (the metric is loss and was chrf): the best is update {by_loss}" in log


def test_patience_and_plateaus_do_not_count_over_a_change_of_metric(corpus):
    plateau = {"kind": "plateau", "factor": 0.1, "patience": 2}
    options = {"optimizer": HARDLY, "lr_schedule": plateau, "report_every": 1, "checkpoints": KEEP}
    trained(corpus, "run", max_duration=["4 updates"], validation=every(metric="loss", patience=3), **options)
    validation = every(metric="chrf", patience=3)
    run = trained(corpus, "run", max_duration=["99 updates"], resume=True, validation=validation, **options)
    # Of updates 2 and 4 there is no chrF: 6 is the first and the best; 8, 10 and 12 are no better, and 10 is a plateau.
    assert [line["update"] for line in metrics(run, "validation")] == [2, 4, 6, 8, 10, 12]
    rates = [line["learning_rate"] for line in metrics(run, "train")]
    assert rates == pytest.approx([1e-12] * 10 + [1e-13] * 2, rel=1e-9, abs=0)
    log = (run.folder / "train.log").read_text()
    assert "not ranked, without a comparable chrf: update 2, 4" in log and "there is no best one yet" in log


def test_patience_starts_anew_where_there_is_a_best_one_to_compare_with(corpus):
    trained(
        corpus,
        "run",
        max_duration=["4 updates"],
        optimizer=HARDLY,
        validation=every(metric="bleu", patience=2),
    )
    validation = every(metric="chrf", patience=2)
    run = trained(corpus, "run", max_duration=["99 updates"], resume=True, optimizer=HARDLY, validation=validation)
    # Update 4 was one without a better BLEU; of chrF 6 is the first that is no better, and 8 the second.
    assert [line["update"] for line in metrics(run, "validation")] == [2, 4, 6, 8]


def test_an_average_of_the_best_takes_none_that_cannot_be_compared(corpus):
    options = {"checkpoints": {"keep_last": 9}, "max_duration": ["4 updates"]}
    run = trained(corpus, "run", validation=every(metric="loss"), **options)
    average_run(run.folder, last=None, best=2)
    trained(
        corpus,
        "run",
        resume=True,
        validation=every(metric="chrf"),
        **options | {"max_duration": ["6 updates"]},
    )
    with pytest.raises(RunError, match="1 of 3 checkpoints have a comparable chrf, not 2"):
        average_run(run.folder, last=None, best=2)
    average_run(run.folder, last=None, best=1)
    assert run.weights_origin()["checkpoints"] == ["00000006"]


# ---------------------------------------------------------------------- before the first validation


def test_what_was_interrupted_before_its_first_validation_translates(corpus):
    options = {"validation": every("9 updates", metric="loss"), "time_limit": "0.001 seconds"}
    for _ in range(2):
        with pytest.raises(TrainingInterrupted):
            trained(corpus, "run", resume="if-exists", **options)
    run = load_run(corpus)
    assert run.weights_origin()["checkpoints"] == ["00000002"]
    assert len([*Translator.load(run.folder).translate(["ba be"])]) == 1
    log = (run.folder / "train.log").read_text()
    assert "no validation yet: until there is one, the weights for translation are those of update 2" in log
    said = average_run(run.folder, last=2, best=None)
    assert "00000001, 00000002; none of them was validated" in said
    with pytest.raises(RunError, match="0 of 2 checkpoints have a comparable loss"):
        average_run(run.folder, last=None, best=1)
    trained(corpus, "run", resume=True, max_duration=["9 updates"], validation=every("9 updates"))
    assert run.weights_origin()["checkpoints"] == ["00000009"]
