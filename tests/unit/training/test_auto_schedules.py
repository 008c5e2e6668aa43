"""Schedules whose length is that of the training, through resumptions and for each seed."""

import pytest
import torch

from seq2attn.data.prepare import prepare
from seq2attn.errors import TrainingInterrupted
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.plan import Speed
from seq2attn.training.resolve import resolve_config
from tests.support.trainings import (
    BPE_DROPOUT,
    WORD_TOKENIZERS,
    content,
    log_of,
    metrics,
    train_in_two_processes,
    train_run,
)

ALONE = DistributedContext(rank=0, size=1, device=torch.device("cpu"))
COSINE = {"kind": "cosine", "warmup_updates": 5}


@pytest.mark.slow
def test_a_training_that_resumes_unchanged_keeps_its_schedule(corpus):
    """With BPE-dropout, each epoch has another number of updates, and more than without."""
    schedule = {"lr_schedule": COSINE, "seed": 0}  # whose first epoch is the measure of all
    options = {"tokenizer": BPE_DROPOUT, "batch": {"tokens": 64}, "report_every": 1, **schedule}
    run = train_run(corpus, "run", max_duration=["2 epochs"], **options)
    total, totals = run.load_config().training.lr_schedule.total_updates, set()
    assert total == pytest.approx(metrics(run, "train")[-1]["update"], rel=0.05)
    for _ in range(4):
        with pytest.raises(TrainingInterrupted):
            train_run(corpus, "run", max_duration=["9 epochs"], time_limit="0.001 seconds", resume=True, **options)
        run = RunDirectory(corpus / "run")
        totals.add(run.load_config().training.lr_schedule.total_updates)
    assert len(totals) == 1


def test_other_changes_keep_the_schedule(corpus):
    options = {"tokenizer": BPE_DROPOUT, "lr_schedule": COSINE, "max_duration": ["9999 epochs"]}
    totals = set()
    for number in range(1, 4):
        with pytest.raises(TrainingInterrupted):
            train_run(corpus, "run", time_limit="0.2 seconds", resume="if-exists", report_every=number, **options)
        totals.add(RunDirectory(corpus / "run").load_config().training.lr_schedule.total_updates)
    assert len(totals) == 1
    assert "`training.report_every` was " in log_of(RunDirectory(corpus / "run"))


def test_more_text_lengthens_the_schedule(corpus):
    options = {"lr_schedule": COSINE, "max_duration": ["9 epochs"], "time_limit": "0.001 seconds"}
    totals = []
    for copies in (1, 2):
        for side in ("src", "tgt"):
            (corpus / f"train.{side}").write_text((corpus / f"train.{side}").read_text() * copies)
        with pytest.raises(TrainingInterrupted):
            train_run(corpus, "run", resume="if-exists", **options)
        totals.append(RunDirectory(corpus / "run").load_config().training.lr_schedule.total_updates)
    assert totals[1] > 1.5 * totals[0]


def test_auto_in_the_place_of_a_number_is_followed(corpus):
    options = {"batch": {"tokens": 64}, "max_duration": ["40 updates"], "time_limit": "0.001 seconds"}
    for schedule in (COSINE | {"total_updates": 16}, COSINE):
        with pytest.raises(TrainingInterrupted):
            train_run(corpus, "run", lr_schedule=schedule, resume="if-exists", **options)
    run = RunDirectory(corpus / "run")
    assert run.load_config().training.lr_schedule.total_updates == 40
    assert 'config: `training.lr_schedule.total_updates` was 16 and is "auto"' in log_of(run)


@pytest.mark.parametrize(("repeat", "tokenizer"), [(1, BPE_DROPOUT), (0.7, WORD_TOKENIZERS)])
def test_the_schedule_does_not_depend_on_the_seed(corpus, repeat, tokenizer):
    """With BPE-dropout, and where pairs are sampled, each seed has another number of updates in its first epoch."""
    config = content(corpus, "run", tokenizer=tokenizer, lr_schedule=COSINE, max_duration=["9 epochs"])
    config["data"]["train"]["repeat"] = repeat
    experiment = ExperimentConfig.model_validate(config)
    prepared = prepare(experiment.data, experiment.tokenizer, corpus / "run", lambda line: None)
    totals = set()
    for seed in range(6):
        seeded = experiment.with_value("training.seed", seed)
        resolved = resolve_config(seeded, prepared.train, ALONE, lambda training: Speed(1.0, 1.0, 1.0))
        totals.add(resolved.experiment.training.lr_schedule.total_updates)
    assert len(totals) == 1


def test_the_schedule_of_a_training_that_resumes_in_fewer_processes(corpus):
    """Each session has one update; the config does not change."""
    options = {"lr_schedule": COSINE, "max_duration": ["4 epochs"], "time_limit": "0.001 seconds"}

    def total(run):
        return run.load_config().training.lr_schedule.total_updates

    def session(run, **more):
        with pytest.raises(TrainingInterrupted):
            train_run(corpus, run, batch={"tokens": 64}, **options, **more)
        return total(RunDirectory(corpus / run))

    run, codes, outputs = train_in_two_processes(corpus, "two", batch={"tokens": 64}, **options)
    assert codes == (75, 75) and "cosine schedule" in outputs[0], outputs
    assert ["resume by the same torchrun command, with --resume" in output for output in outputs] == [True, False]
    together, alone = total(run), session("alone")
    assert together < alone
    assert session("two", resume=True) == 1 + alone - (alone // 4) // (together // 4)
    assert "processes: 2 before, 1 now" in log_of(run) and "processes:" not in log_of(RunDirectory(corpus / "alone"))
