"""Scores of validations, the ranking of checkpoints by them, early stopping, and changes of the metric."""

import pytest

import seq2attn
from seq2attn.errors import RunError, TrainingInterrupted, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.terminal import plural
from seq2attn.io.weights import load_tensors
from seq2attn.training.checkpoints.averaging import average
from seq2attn.training.checkpoints.checkpoint import Checkpoint, list_checkpoints
from seq2attn.training.checkpoints.retention import rank_checkpoints
from seq2attn.training.train_state import TrainState
from tests.support.marks import slow_but
from tests.support.trainings import assert_same, log_of, metrics, train_run
from tests.support.validation import every, validate

NO_PROGRESS = {"kind": "sgd", "lr": 1e-12}
KEEP = {"keep_last": 9, "keep_best": 2}
CHRF = {"metric": "chrf"}


def checkpoint(update, digest="a", **scores):
    return Checkpoint(None, TrainState(update, validation_digest=digest, scores=scores), {}, {}, {})


def test_the_metric_ranks_then_the_loss_then_the_newer():
    checkpoints = [
        checkpoint(1, loss=3.0, bleu=9.0, chrf=9.0),
        checkpoint(2, loss=2.0, bleu=8.0, chrf=8.0),
        checkpoint(3, loss=1.0, bleu=8.0, chrf=7.0),
        checkpoint(4, loss=1.0, bleu=8.0, chrf=7.0),
    ]
    for metric, updates in {"bleu": [1, 4, 3, 2], "chrf": [1, 2, 4, 3], "loss": [4, 3, 2, 1]}.items():
        for order in (checkpoints, checkpoints[::-1]):
            assert [c.train_state.update for c in rank_checkpoints(order, metric, "a")] == updates


def test_bleu_of_an_untrained_model_does_not_rank():
    checkpoints = [
        checkpoint(1, loss=6.2, bleu=4.9),
        checkpoint(2, loss=3.7, bleu=0.7),
        checkpoint(3, loss=4.0, bleu=5.1),
    ]
    assert [c.train_state.update for c in rank_checkpoints(checkpoints, "bleu", "a")] == [3, 2, 1]


def test_only_scores_of_one_digest_are_comparable():
    checkpoints = [checkpoint(1, loss=1.0), checkpoint(2, loss=1.0, bleu=9.0), checkpoint(3, "b", loss=0.5, bleu=99.0)]
    assert [c.train_state.update for c in rank_checkpoints(checkpoints, "bleu", "a")] == [2]
    assert [c.train_state.update for c in rank_checkpoints(checkpoints, "loss", "a")] == [2, 1]


def test_of_equal_validations_the_newest_translates_and_patience_ends(corpus):
    validation = every(patience=2, metric="bleu")
    run = train_run(corpus, "run", max_duration=["99 updates"], optimizer=NO_PROGRESS, validation=validation)
    lines = metrics(run, "validation")
    assert [line["update"] for line in lines] == [2, 4, 6]
    assert len({(line["bleu"], line["loss"]) for line in lines}) == 1
    assert run.weights_origin()["checkpoints"] == ["00000006"]
    assert "at update 6 (`training.validation.patience`); weights" in log_of(run)
    train_run(corpus, "run", resume=True, max_duration=["6 updates"], optimizer=NO_PROGRESS, validation=validation)
    assert "at update 6 (`training.max_duration` and `training.validation.patience`); weights" in log_of(run)
    train_run(
        corpus, "run", resume=True, max_duration=["6 updates"], optimizer=NO_PROGRESS, validation=every(metric="bleu")
    )
    assert "at update 6 (`training.max_duration`); weights" in log_of(run)


@pytest.mark.parametrize("metric", ["loss", pytest.param("chrf", marks=pytest.mark.slow)])
def test_training_ends_when_its_metric_reaches_the_target(corpus, metric):
    options = {"max_duration": ["12 updates"], "optimizer": {"kind": "adam", "lr": 0.03}}
    whole = metrics(train_run(corpus, "whole", validation=every(metric=metric), **options), "validation")
    best = min if metric == "loss" else max
    target = best(line[metric] for line in whole[:4])
    (expected, *_) = (line["update"] for line in whole if best(line[metric], target) == line[metric])
    run = train_run(corpus, "run", validation=every(metric=metric, target=target), **options)
    assert [line["update"] for line in metrics(run, "validation")][-1] == expected < 12
    assert f"at update {expected} (`training.validation.target`); weights" in log_of(run)
    train_run(corpus, "run", validation=every(metric=metric, target=target), resume=True, **options)
    assert metrics(run, "validation")[-1]["update"] == expected
    train_run(corpus, "run", validation=every(metric=metric), resume=True, **options)
    assert metrics(run, "validation") == whole


@pytest.mark.parametrize(
    ("metric", "options", "warns"),
    [
        ("bleu", {"checkpoints": KEEP}, True),
        pytest.param("chrf", {}, False, marks=pytest.mark.slow),
        pytest.param("bleu", {"optimizer": NO_PROGRESS}, False, marks=pytest.mark.slow),
    ],
)
def test_with_zero_bleu_the_loss_ranks_and_a_warning_is_logged(corpus, metric, options, warns):
    for name in ("train", "dev"):  # without spaces, sentences are one word of 13a
        path = corpus / f"{name}.tgt"
        path.write_text(path.read_text().replace(" ", ""))
    tokenizer = {"source": {"kind": "words"}, "target": {"kind": "characters"}}
    options = {"max_duration": ["8 updates"], "tokenizer": tokenizer, **options}
    run = train_run(corpus, "run", validation=every(metric=metric), **options)
    log = log_of(run).split("\n")
    places = [number for number, line in enumerate(log) if "BLEU is 0.00 in two validations" in line]
    if not warns:
        assert places == []
        return
    lines = metrics(run, "validation")
    assert {line["bleu"] for line in lines} == {0.0}
    losses = [line["loss"] for line in lines]
    assert losses == sorted(losses, reverse=True)
    assert run.weights_origin()["checkpoints"] == ["00000008"]
    (place,) = places
    assert "validation at update 4" in log[place - 1]
    assert all(advice in log[place] for advice in ("`evaluation.tokenize`", "chrf or loss", "train longer"))


@pytest.mark.parametrize(
    ("other", "ranked", "reason"),
    [
        pytest.param({"metric": "loss"}, range(1, 10), "the metric is loss and was chrf", marks=pytest.mark.slow),
        (CHRF | {"max_sentences": 2}, [9], "the dev set, or the settings of scores, have changed"),
    ],
)
def test_after_a_change_of_scores_and_back_the_best_by_the_current_ones_translates(corpus, other, ranked, reason):
    options, published = {"checkpoints": KEEP, "optimizer": {"kind": "adam", "lr": 0.3}}, []
    for last, measure, updates in ((8, CHRF, range(1, 9)), (9, other, ranked), (9, CHRF, range(1, 9))):
        validation = every("1 update", patience=9, **measure)
        options["max_duration"] = [f"{last} updates"]
        run = train_run(corpus, "run", resume="if-exists", validation=validation, **options)
        comparable = [c for c in list_checkpoints(run.folder) if c.train_state.update in updates]
        sign = -1 if measure["metric"] == "loss" else 1
        best = max(comparable, key=lambda c: sign * c.train_state.scores[measure["metric"]])
        origin = run.weights_origin()
        assert (origin["checkpoints"], origin["metric"]) == ([best.folder.name], measure["metric"])
        assert origin["scores"] == best.train_state.scores
        assert_same(load_tensors(run.weights_path), load_tensors(best.model_path))
        published.append(best.train_state.update)
    assert published[0] != published[1]
    assert f"patience restarts ({reason}): the best is update " in log_of(run)


@pytest.mark.parametrize(
    ("first", "patience", "last", "rates"),
    [
        # Updates 2 and 4 have no chrF: 6 is the first and the best; others are no better, and 10 and 14 are plateaus.
        pytest.param("loss", 5, 16, [1e-12] * 10 + [1e-13] * 4 + [1e-14] * 2, marks=pytest.mark.slow),
        # Update 4 had no better BLEU; 6 is the first without a better chrF, and 8 the second.
        ("bleu", 2, 8, [1e-12] * 8),
    ],
)
def test_patience_and_plateaus_restart_at_a_change_of_metric(corpus, first, patience, last, rates):
    plateau = {"kind": "plateau", "factor": 0.1, "patience": 2}
    options = {"optimizer": NO_PROGRESS, "lr_schedule": plateau, "report_every": 1, "checkpoints": KEEP}
    for metric, updates in ((first, 4), ("chrf", 99)):
        validation, options["max_duration"] = every(metric=metric, patience=patience), [f"{updates} updates"]
        run = train_run(corpus, "run", resume="if-exists", validation=validation, **options)
    assert [line["update"] for line in metrics(run, "validation")] == [*range(2, last + 1, 2)]
    assert [line["learning_rate"] for line in metrics(run, "train")] == pytest.approx(rates, rel=1e-9, abs=0)
    unranked = "not ranked, without a comparable chrf: update 2, 4", "there is no best one yet"
    assert [text in log_of(run) for text in unranked] == [first == "loss"] * 2


@pytest.mark.parametrize("average", slow_but(["best"], ["none", "best"]))
@pytest.mark.parametrize("change", [{"validation": every(metric="chrf")}, {"label_smoothing": 0.3}], ids=str)
def test_an_ended_training_is_validated_by_other_scores(corpus, average, change):
    options = {"validation": every(metric="loss"), "max_duration": ["4 updates"], "checkpoints": {"average": average}}
    before = train_run(corpus, "run", **options)
    validated = len(metrics(before, "validation"))
    for _ in range(2):  # the second time by the same scores
        run = train_run(corpus, "run", resume=True, **{**options, **change})
        (line,), origin = metrics(run, "validation")[validated:], run.weights_origin()
        assert line["update"] == 4 and line.items() >= origin["scores"].items()
        assert origin["checkpoints"] == ["00000004"]


def test_an_average_of_the_best_needs_comparable_scores(corpus):
    options = {"checkpoints": {"keep_last": 9}}
    run = train_run(corpus, "run", validation=every(metric="loss"), max_duration=["4 updates"], **options)
    average(run.folder, last=None, best=2)
    train_run(corpus, "run", resume=True, validation=every(metric="chrf"), max_duration=["6 updates"], **options)
    with pytest.raises(RunError, match="1 of 3 checkpoints have a comparable chrf, not 2"):
        average(run.folder, last=None, best=2)
    average(run.folder, last=None, best=1)
    assert run.weights_origin()["checkpoints"] == ["00000006"]


@pytest.mark.parametrize("options", [{"last": 0}, {"last": -1}, {"best": 0}, {"best": -1}], ids=str)
def test_a_mean_is_of_at_least_one_checkpoint(tmp_path, options):
    ((name, count),) = options.items()
    with pytest.raises(UserError, match=f"``{name}={count}``: the mean is that of at least 1 checkpoint"):
        average(tmp_path, **options)


def test_the_log_names_the_weights_for_translation(corpus):
    """A mean is not named as the best checkpoint: one made by training is replaced, one of the user is kept."""
    options = {"validation": every(metric="loss"), "max_duration": ["6 updates"]}
    options |= {"optimizer": {"kind": "adam", "lr": 0.3}}  # it overshoots, so that the mean is better
    run = train_run(corpus, "run", checkpoints={**KEEP, "average": "last"}, **options)
    assert len(run.weights_origin()["checkpoints"]) == 3
    assert validate(run)[1].scores == pytest.approx(run.weights_origin()["scores"])
    train_run(corpus, "run", resume=True, checkpoints=KEEP, **options)
    (best,) = run.weights_origin()["checkpoints"]
    assert_same(load_tensors(run.weights_path), load_tensors(run.folder / "checkpoints" / best / "model.safetensors"))
    average(run.folder, last=2, best=None)
    mean = load_tensors(run.weights_path)
    train_run(corpus, "run", resume=True, checkpoints=KEEP, **options)
    assert_same(load_tensors(run.weights_path), mean)
    loss = min(line["loss"] for line in metrics(run, "validation"))
    origins = [line.split("translation: ")[1].split(";")[0] for line in log_of(run).split("\n") if "ended" in line]
    assert "the mean of 3 checkpoints (loss " in origins[0]
    assert origins[1].startswith(f"update {int(best)} (loss {loss:.3f}  ppl ")
    assert origins[2] == "the mean of 2 checkpoints by `seq2attn average`"


@pytest.mark.parametrize("count", [1, 3])
def test_a_mean_that_is_worse_than_the_best_checkpoint_is_not_kept(corpus, count):
    too_fast = {"kind": "adam", "lr": 0.3}
    options = {"validation": every(metric="loss"), "max_duration": ["12 updates"], "optimizer": too_fast}
    options |= {"checkpoints": {**KEEP, "keep_last": count, "average": "last"}}
    run = train_run(corpus, "run", **options)
    origin, (best,) = run.weights_origin(), run.weights_origin()["checkpoints"]
    losses = {line["update"]: line["loss"] for line in metrics(run, "validation")}
    assert int(best) == min(losses, key=losses.get) < 8
    assert_same(load_tensors(run.weights_path), load_tensors(run.folder / "checkpoints" / best / "model.safetensors"))
    (line,) = [line for line in log_of(run).split("\n") if " is worse than " in line]
    assert (
        f"the mean of {plural(count, 'checkpoint')} (loss " in line
        and f"update {int(best)} (loss {losses[int(best)]:.3f}  ppl " in line
    )
    assert train_run(corpus, "run", resume=True, **options).weights_origin() == origin


def test_before_the_first_validation_an_interrupted_training_translates(corpus):
    options = {"validation": every("9 updates", metric="loss"), "time_limit": "0.001 seconds"}
    for _ in range(2):
        with pytest.raises(TrainingInterrupted):
            train_run(corpus, "run", resume="if-exists", **options)
    run = RunDirectory(corpus / "run")
    assert run.weights_origin()["checkpoints"] == ["00000002"]
    assert len([*seq2attn.load(run.folder).translate(["ba be"])]) == 1
    assert "no validation yet: until there is one, the weights for translation are those of update 2" in log_of(run)
    assert "00000001, 00000002; none of these was validated" in str(average(run.folder, last=2, best=None))
    with pytest.raises(RunError, match="0 of 2 checkpoints have a comparable loss"):
        average(run.folder, last=None, best=1)
    train_run(corpus, "run", resume=True, max_duration=["9 updates"], validation=every("9 updates"))
    assert run.weights_origin()["checkpoints"] == ["00000009"]
