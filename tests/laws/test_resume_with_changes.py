"""Resume with another config or text: changes are logged, old configs kept, other models refused."""

import re
import shutil

import pytest
import yaml

from seq2attn.errors import DataError, RunError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.io.weights import load_tensors
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.train import train
from tests.support.marks import slow_but
from tests.support.trainings import BAHDANAU, assert_same, content, last_weights, log_of, metrics, train_run

FIRST = {"max_duration": ["2 updates"], "validation": {"every": "2 updates", "metric": "loss"}}
NEXT = {**FIRST, "max_duration": ["4 updates"]}


def test_changed_keys_are_logged_and_old_configs_kept(corpus, capsys):
    run = train_run(corpus, "run", **FIRST)
    first = run.config_path.read_text()
    changed = {"optimizer": {"kind": "adam", "lr": 0.02}, "batch": {"tokens": 96}, "seed": 2}
    train_run(corpus, "run", resume=True, **NEXT, **changed)
    lines = [
        'config: `training.max_duration` was ["2 updates"] and is ["4 updates"]',
        "config: `training.seed` was 1 and is 2",
        "config: `training.batch.tokens` was 64 and is 96",
        "config: `training.optimizer.lr` was 0.01 and is 0.02",
    ]
    log = log_of(run).split("\n")
    logged = [line.partition(" # ")[2] for line in log if " # config: " in line]
    assert sorted(logged) == sorted(lines)
    error = capsys.readouterr().err
    assert all(line in error for line in lines)
    assert (run.folder / "config.00000002.yaml").read_text() == first
    assert yaml.safe_load(run.config_path.read_text())["training"]["optimizer"]["lr"] == 0.02
    assert metrics(run, "train")[-1]["learning_rate"] == 0.02
    train_run(corpus, "run", resume=True, **NEXT, **changed)  # without changes nothing is logged or kept
    assert log_of(run).count(" was ") == len(lines)
    assert [path.name for path in run.folder.glob("config.0*.yaml")] == ["config.00000002.yaml"]
    shutil.rmtree(run.folder / "checkpoints")
    run.weights_path.unlink()
    train_run(corpus, "run", **FIRST)  # a new training does not resume with configs of the old one
    assert not [*run.folder.glob("config.0*.yaml")]


def test_a_resumed_cosine_schedule_is_no_change(corpus):
    for resume in (False, True):
        run = train_run(corpus, "run", resume=resume, **FIRST, lr_schedule={"kind": "cosine"})
    assert " was " not in log_of(run) and not [*run.folder.glob("config.0*.yaml")]


def test_a_micro_batch_larger_than_the_automatic_batch(corpus):
    train_run(corpus, "run", **FIRST, batch={"tokens": "auto"})
    run = train_run(corpus, "run", resume=True, **NEXT, batch={"tokens": "auto", "micro_batch_tokens": 999})
    assert run.load_config().training.batch.tokens == 999
    assert "config: `training.batch.tokens` was 256 and is 999" in log_of(run)


@pytest.mark.parametrize("kind", slow_but(["sgd"], ["sgd", "adadelta"]))
def test_another_optimizer_starts_without_a_state(corpus, kind):
    train_run(corpus, "run", **FIRST)
    other = {"kind": kind, "lr": 0.1, **({"momentum": 0.9} if kind == "sgd" else {})}
    run = train_run(corpus, "run", resume=True, **NEXT, optimizer=other)
    log = log_of(run)
    assert f'`training.optimizer.kind` was "adam" and is "{kind}"' in log
    assert "the new optimizer starts without a state" in log
    state = load_tensors(list_checkpoints(run.folder)[-1].optimizer_path)
    assert state and not any("exp_avg" in name for name in state)  # those of Adam
    train_run(corpus, "run", resume=True, **NEXT, optimizer=other)  # with the state of the new one


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9}},
        *(pytest.param(one, marks=pytest.mark.slow) for one in ({"ema_decay": 0.5}, {"lr_scales": {"encoder": 0.5}})),
    ],
    ids=str,
)
def test_a_change_whose_session_saved_no_checkpoint(corpus, change):
    """It is a change again, and can be taken back: the state of the optimizer is that of its checkpoint."""
    run = train_run(corpus, "run", **FIRST)
    first = run.config_path.read_text()
    shutil.copytree(run.folder, corpus / "other")
    unchanged = last_weights(train_run(corpus, "other", resume=True, **NEXT))
    changed = last_weights(train_run(corpus, "run", resume=True, **NEXT, **change))
    for options, expected in ((change, changed), ({}, unchanged), (change, changed)):
        shutil.rmtree(run.folder / "checkpoints/00000004")  # as if it had not been saved
        train_run(corpus, "run", resume=True, **NEXT, **options)
        assert_same(last_weights(run), expected)
        assert (run.folder / "config.00000002.yaml").read_text() == first


def test_configs_of_lost_updates_are_not_kept(corpus):
    """They would be taken for those of the updates that replace the lost ones."""
    run = train_run(corpus, "run", **FIRST)
    first = run.config_path.read_text()
    train_run(corpus, "run", resume=True, **NEXT, seed=2)
    train_run(corpus, "run", resume=True, **NEXT, seed=3)
    assert (run.folder / "config.00000004.yaml").exists()
    shutil.rmtree(run.folder / "checkpoints/00000004")
    train_run(corpus, "run", resume=True, **NEXT, seed=4)
    assert [path.name for path in run.folder.glob("config.0*.yaml")] == ["config.00000002.yaml"]
    assert (run.folder / "config.00000002.yaml").read_text() == first
    assert "config: `training.seed` was 1 and is 4" in log_of(run)


def test_adamw_resumes_with_the_state_of_adam(corpus):
    for name in ("adam", "adamw"):
        train_run(corpus, name, **FIRST)
        train_run(corpus, name, resume=True, **NEXT, optimizer={"kind": name, "lr": 0.01})
    one, other = (list_checkpoints(corpus / name)[-1].model_path for name in ("adam", "adamw"))
    assert_same(load_tensors(one), load_tensors(other))


@pytest.mark.parametrize(
    ("part", "value", "change"),
    [
        ("model", {"embeddings": {"dim": 4}}, "model.embeddings.dim` was 8 and is 4"),
        ("tokenizer", {"source": {"kind": "words", "vocab_size": 20}}, "source.vocab_size` was null and is 20"),
    ],
)
def test_another_model_or_tokenizer_is_refused(corpus, part, value, change):
    run = train_run(corpus, "run", **FIRST)
    config = run.config_path.read_text()
    other = content(corpus, "run", **NEXT)
    other[part] = {**other[part], **value}
    with pytest.raises(RunError, match=f"was trained with another `{part}`") as caught:
        train(ExperimentConfig.model_validate(other), resume=True)
    assert change in str(caught.value)
    assert run.config_path.read_text() == config and not list(run.folder.glob("config.0*.yaml"))


@pytest.mark.parametrize(("change", "keys"), [({"rank": 2, "alpha": 4}, ["alpha"]), (None, ["rank", "alpha", "parts"])])
def test_other_low_rank_updates_are_refused(corpus, change, keys):
    train_run(corpus, "run", **FIRST, lora={"rank": 2, "alpha": 6})
    with pytest.raises(RunError, match=r"was trained with another `training\.lora`; resume with its config") as caught:
        train_run(corpus, "run", resume=True, **NEXT, lora=change)
    assert re.findall(r"`training\.lora\.(.*)` was ", str(caught.value)) == keys


def test_a_tag_that_the_vocabulary_lacks_is_refused(corpus):
    run = train_run(corpus, "run", **FIRST)
    prepared = (run.folder / "data/prepared.json").read_text()
    other = content(corpus, "run", **NEXT)
    other["data"]["train"]["tag"] = "2fr"
    with pytest.raises(DataError, match="its source tokenizer has no tag <2fr>"):
        train(ExperimentConfig.model_validate(other), resume=True)
    assert (run.folder / "data/prepared.json").read_text() == prepared


def test_another_training_text_is_logged(corpus):
    run = train_run(corpus, "run", **FIRST)
    path = corpus / "train.tgt"
    path.write_text("ba\n" * len(path.read_text().splitlines()))
    train_run(corpus, "run", resume=True, **NEXT)
    assert f" # text of `data.train`: {path} has changed (SHA-256 was " in log_of(run)
    assert f"data.train`: {corpus / 'train.src'}" not in log_of(run)


def test_another_dev_set_needs_an_option(corpus):
    run = train_run(corpus, "run", **FIRST)
    path = corpus / "dev.tgt"
    path.write_text("ba\n" * 6)
    prepared = (run.folder / "data/prepared.json").read_text()
    with pytest.raises(
        RunError, match=r"another dev set; restore that dev set, or rank them again with ``new_dev_set``"
    ) as caught:
        train_run(corpus, "run", resume=True, **NEXT)
    assert f"{path} has changed" in str(caught.value)
    assert (run.folder / "data/prepared.json").read_text() == prepared
    config = ExperimentConfig.model_validate(content(corpus, "run", **NEXT))
    train(config, resume=True, new_dev_set=True)
    log = log_of(run)
    assert "the dev set, or the settings of scores, have changed" in log
    assert run.weights_origin()["checkpoints"] == ["00000004"]  # there are no comparable scores
    train(config, resume=True)


def test_a_target_that_was_reached_on_another_dev_set_is_not_reached(corpus):
    validation = {"every": "1 update", "metric": "bleu", "target": 0}
    run = train_run(corpus, "run", max_duration=["9 updates"], validation=validation)
    assert [line["update"] for line in metrics(run, "validation")] == [1]
    (corpus / "dev.tgt").write_text("ba\n" * 6)
    config = content(corpus, "run", max_duration=["9 updates"], validation=validation)
    train(ExperimentConfig.model_validate(config), resume=True, new_dev_set=True)
    assert [line["update"] for line in metrics(run, "validation")] == [1, 2]


def test_moved_text_and_vectors_are_no_change(corpus):
    vectors = corpus / "words.vec"
    vectors.write_text("2 8\nba 1 2 3 4 5 6 7 8\nbe 1 2 3 4 5 6 7 8\n")
    model = {**BAHDANAU, "embeddings": {"dim": 8, "source_vectors": str(vectors)}}
    run = train_run(corpus, "run", **FIRST, model=model)
    (corpus / "elsewhere").mkdir()
    model["embeddings"]["source_vectors"] = str(vectors.rename(corpus / "elsewhere" / "words.vec"))
    moved = content(corpus, "run", **NEXT, model=model)
    for part in moved["data"].values():
        for side in ("source", "target"):
            before = part[side]
            part[side] = before.replace(str(corpus), str(corpus / "elsewhere"))
            (corpus / before).rename(part[side])
    train(ExperimentConfig.model_validate(moved), resume=True)
    log = log_of(run)
    assert "`data.dev.source` was " in log and "text of" not in log and "ranked again" not in log
    assert "`model.embeddings.source_vectors` was " in log
    model["embeddings"]["source_vectors"] = str(vectors.with_name("other.vec"))
    with pytest.raises(RunError, match="another `model`"):
        train_run(corpus, "run", resume=True, **NEXT, model=model)
