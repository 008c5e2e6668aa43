"""Laws of trainings that begin with the weights of another run: `training.init_from`, `frozen`, `tokenizer.run_dir`."""

import itertools
import re
import shutil

import pytest
import torch
import yaml

from seq2attn.errors import RunError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.weights import load_tensors, save_tensors
from seq2attn.tokenizers.vocabulary import BOS, Vocabulary
from seq2attn.training.checkpoints.averaging import average
from seq2attn.training.checkpoints.checkpoint import list_checkpoints, load_weights
from seq2attn.training.train import train
from tests.support.marks import slow_but
from tests.support.trainings import (
    BAHDANAU,
    MODELS,
    NO_UPDATE,
    TRANSFORMER,
    WORD_TOKENIZERS,
    assert_near,
    assert_same,
    content,
    last_state,
    last_weights,
    log_of,
    metrics,
    train_run,
)

SIDES = {
    "source": ["source_embedding.embedding.weight"],
    "target": ["target_embedding.embedding.weight", "output_projection.weight", "output_projection.bias"],
}
"""Parameters with a row for each entry of a vocabulary."""


@pytest.fixture
def old(corpus):
    return train_run(corpus, "old", max_duration=["6 updates"])


def init_from(run, *exclude):
    return {"run_dir": str(run.folder), "exclude": exclude}


def of_run(run):
    return {"run_dir": str(run.folder)}


@pytest.mark.parametrize("tokenizer", ["of the run", "trained"])
def test_a_run_begins_as_the_other_ended(corpus, old, tokenizer):
    text = of_run(old) if tokenizer == "of the run" else WORD_TOKENIZERS
    new = train_run(corpus, "new", tokenizer=text, init_from=init_from(old), seed=5, **NO_UPDATE)
    assert_same(load_tensors(old.weights_path), last_weights(new))
    assert metrics(new, "validation")[-1]["loss"] == min(line["loss"] for line in metrics(old, "validation"))


def test_a_plug_in_takes_the_tied_weights_of_a_run(corpus):
    """Its model is built with its weights, that of the run without: they cannot be compared before the training."""
    model = {**BAHDANAU, "embeddings": {"dim": 8, "tie": "output"}}
    old = train_run(corpus, "old", model=model, **NO_UPDATE)
    measured = {**model, "encoder": {"kind": "tests.support.faults:Measured"}}
    new = train_run(corpus, "new", model=measured, init_from=init_from(old, "encoder"), **NO_UPDATE)
    name = "target_embedding.embedding.weight"
    assert_same({name: last_weights(old)[name]}, {name: last_weights(new)[name]})


def test_entries_of_another_vocabulary_are_copied_composed_or_new(corpus, old):
    for path in (corpus / f"{name}.{side}" for name in ("train", "dev") for side in ("src", "tgt")):
        path.write_text(path.read_text().replace("ba", "bafe").replace("do", "do xyz"))
    new = train_run(corpus, "new", init_from=init_from(old), seed=5, **NO_UPDATE)
    initial = last_weights(train_run(corpus, "fresh", seed=5, **NO_UPDATE))
    before, after = load_tensors(old.weights_path), last_weights(new)
    for side, names in SIDES.items():
        old_ids, new_ids = (Vocabulary.load(run.folder / side / "vocabulary.json") for run in (old, new))
        for name, (id, token) in itertools.product(names, enumerate(new_ids.tokens)):
            parts = ["ba", "fe"] if token == "bafe" else [token]
            mean = before[name][[old_ids.id(part) for part in parts]].mean(0)
            torch.testing.assert_close(after[name][id], initial[name][id] if token == "xyz" else mean)
        assert f"{side} vocabulary: {len(new_ids) - 2} entries copied, 1 the mean of several, 1 new" in log_of(new)
    others = [name for name in before if name not in itertools.chain(*SIDES.values())]
    assert_same({name: before[name] for name in others}, {name: after[name] for name in others})


def test_the_tokenizers_of_a_run_are_those_of_its_text(corpus, old):
    def vocabularies(run):
        return [tokenizer.vocabulary for tokenizer in run.load_tokenizers()]

    for side in ("src", "tgt"):
        (corpus / f"train.{side}").write_text((corpus / f"dev.{side}").read_text())
    new = train_run(corpus, "new", tokenizer=of_run(old), **NO_UPDATE)
    other = train_run(corpus, "other", **NO_UPDATE)
    assert vocabularies(new) == vocabularies(old) != vocabularies(other)
    assert new.load_config().tokenizer.per_side == old.load_config().tokenizer.per_side
    shutil.rmtree(old.folder)
    other.folder.rename(old.folder)  # the text is prepared again
    shutil.rmtree(new.folder / "checkpoints")
    new.weights_path.unlink()
    assert vocabularies(train_run(corpus, "new", tokenizer=of_run(old), **NO_UPDATE)) == vocabularies(old)


def test_excluded_parts_keep_their_initial_values_and_frozen_ones_are_not_trained(corpus, old):
    parts = ("encoder", "decoder.attention.score.v")
    new = train_run(corpus, "new", init_from=init_from(old, *parts), seed=5, **NO_UPDATE)
    initial = last_weights(train_run(corpus, "fresh", seed=5, **NO_UPDATE))
    expected = load_tensors(old.weights_path)
    of_parts = {name for name in initial if name.startswith("encoder.") or name == parts[1]}
    assert len(of_parts) > 4
    assert_near(last_weights(new), {name: (initial if name in of_parts else expected)[name] for name in initial})
    frozen = last_weights(
        train_run(corpus, "frozen", init_from=init_from(old), frozen=parts, max_duration=["5 updates"])
    )
    assert {name for name in frozen if torch.equal(frozen[name], expected[name])} == of_parts


@pytest.mark.parametrize("kind", slow_but(["recurrent"], ["recurrent", "transformer"]))
def test_each_part_can_be_frozen(corpus, kind):
    """The other parts learn as if nothing were frozen, in the first update: their gradients are the same."""
    sgd = {"optimizer": {"kind": "sgd", "lr": 0.1}, "max_grad_norm": None, "max_duration": ["1 update"]}
    free = last_weights(train_run(corpus, "free", model=MODELS[kind], **sgd))
    initial = last_weights(train_run(corpus, "initial", model=MODELS[kind], **NO_UPDATE))
    for part in ("source_embedding", "encoder", "target_embedding", "decoder", "output_projection"):
        is_tied = kind == "transformer" and part == "output_projection"
        names = (part, "target_embedding") if is_tied else part
        frozen = last_weights(train_run(corpus, part, model=MODELS[kind], frozen=[part], **sgd))
        assert_near(frozen, {name: (initial if name.startswith(names) else free)[name] for name in free})


def test_parts_have_their_own_learning_rates(corpus):
    """Of a part in a part the longer name counts; the rate of the log is that of the optimizer."""
    sgd = {"optimizer": {"kind": "sgd", "lr": 0.1}, "max_grad_norm": None, "max_duration": ["1 update"]}
    initial, whole = (last_weights(train_run(corpus, name, **one)) for name, one in (("no", NO_UPDATE), ("all", sgd)))
    scales = {"decoder.attention": 2.0, "decoder": 0.5, "encoder.rnn.weight_ih_l0": 0.25, "source_embedding": 3.0}
    run = train_run(corpus, "run", lr_scales=scales, **sgd)
    for name, weight in last_weights(run).items():
        scale = next((scale for part, scale in scales.items() if f"{name}.".startswith(f"{part}.")), 1.0)
        expected = initial[name] + scale * (whole[name] - initial[name])
        torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-7)
    assert [line["learning_rate"] for line in metrics(run, "train")] == [0.1]
    train_run(corpus, "run", lr_scales={}, resume=True, **sgd | {"max_duration": ["2 updates"]})
    assert "the new optimizer starts without a state" in log_of(run)
    with pytest.raises(UserError, match=r"`training.lr_scales`: the model has no part `encoder.rn`.* `encoder.rnn`"):
        train_run(corpus, "names", lr_scales={"encoder.rn": 0.5})


def test_a_frozen_bos_keeps_its_row(corpus):
    """It has a gradient as input, and as part of a tied output by label smoothing."""
    for tie in ("none", "output"):
        embeddings = {**MODELS["transformer"]["embeddings"], "frozen_bos": True, "tie": tie}
        options = {"model": {**MODELS["transformer"], "embeddings": embeddings}}
        initial = last_weights(train_run(corpus, f"{tie} initial", **options, **NO_UPDATE))
        after = last_weights(train_run(corpus, f"{tie} after", **options, max_duration=["2 updates"]))
        changed = (initial[SIDES["target"][0]] != after[SIDES["target"][0]]).any(1)
        assert changed.any() and not changed[BOS] and (tie == "none" or changed.sum() == len(changed) - 1)


@pytest.mark.slow
def test_frozen_weights_are_saved_once(corpus, old):
    """A resumption may freeze other parts; without the frozen weights, or with other ones, there is one line."""
    run = train_run(corpus, "run", init_from=init_from(old), frozen=["encoder"], max_duration=["4 updates"])
    (first,) = list_checkpoints(run.folder)
    assert not {name for name in load_tensors(first.model_path) if name.startswith("encoder.")}
    assert {name.partition(".")[0] for name in load_tensors(first.frozen_path)} == {"encoder"}
    train_run(corpus, "run", frozen=["target_embedding"], max_duration=["8 updates"], resume=True)
    _, second = list_checkpoints(run.folder)
    assert_same(load_weights(second), load_tensors(run.weights_path))
    assert first.frozen_path.exists() and first.frozen_path != second.frozen_path
    train_run(corpus, "run", frozen=["target_embedding"], max_duration=["24 updates"], resume=True)
    assert {*first.frozen_path.parent.glob("frozen-*")} == {second.frozen_path}  # of all checkpoints that are kept

    run.weights_path.write_bytes(b"")
    with pytest.raises(RunError, match=f"restore them with `seq2attn average {run.folder} --best 1`"):
        run.load()
    for spoil, message in (
        (lambda: save_tensors(load_tensors(old.weights_path), second.frozen_path), "is corrupt: it does not hold"),
        (second.frozen_path.unlink, "there is no such file; it has the frozen weights of all checkpoints of this run"),
    ):
        spoil()
        for use in (
            lambda: average(run.folder, last=1, best=None),
            lambda: train_run(corpus, "run", frozen=["target_embedding"], resume=True),
        ):
            with pytest.raises(RunError, match=f"{second.frozen_path}: {message}") as error:
                use()
            assert str(error.value).count(str(second.frozen_path)) == 1


@pytest.mark.slow
def test_resuming_needs_no_other_run_and_is_exact(corpus, old):
    options = {"tokenizer": of_run(old), "init_from": init_from(old), "frozen": ["encoder.rnn"]}
    whole = train_run(corpus, "whole", max_duration=["8 updates"], **options)
    half = train_run(corpus, "half", max_duration=["4 updates"], **options)
    shutil.rmtree(old.folder)
    config = {**content(corpus, "half", max_duration=["8 updates"], **options)}
    config["tokenizer"] = half.load_config().tokenizer.model_dump()  # filled in
    train(ExperimentConfig.model_validate(config), resume=True)
    assert_same(last_weights(whole), last_weights(half))
    assert last_state(whole).scores == last_state(half).scores


def test_weights_that_do_not_fit_are_refused(corpus, old):
    wide = {**BAHDANAU, "encoder": {"kind": "gru", "dim": 16}}
    message = rf"{old.folder}: `encoder.rnn.weight_ih_l0` is 12 x 8, expected 24 x 8, and \d+ more; take the `model`"
    with pytest.raises(UserError, match=message):
        train_run(corpus, "wide", model=wide, init_from=init_from(old))
    assert not (corpus / "wide" / "checkpoints").exists()
    train_run(corpus, "apart", model=wide, init_from=init_from(old, "encoder", "decoder"), **NO_UPDATE)
    assert "config: `model.encoder.dim` was 8 and is 16" in log_of(RunDirectory(corpus / "apart"))
    tied = {**BAHDANAU, "embeddings": {"dim": 8, "tie": "output"}}
    with pytest.raises(UserError, match=r"`target_embedding.embedding.weight` and `output_projection.weight` differ"):
        train_run(corpus, "tied", model=tied, init_from=init_from(old))
    everything = ["source_embedding", "encoder", "target_embedding", "decoder", "output_projection"]
    with pytest.raises(UserError, match="leaves no part to train"):
        train_run(corpus, "names", frozen=everything)
    text = {**of_run(old), "source": {"kind": "words"}, "target": {"kind": "words", "lowercase": True}}
    with pytest.raises(UserError, match="its target tokenizer has `lowercase: False`, and the config True"):
        train_run(corpus, "names", tokenizer=text)
    tagged = ExperimentConfig.model_validate(content(corpus, "tagged", tokenizer=of_run(old)))
    (part,) = tagged.data.train
    data = tagged.data.model_copy(update={"train": (part.model_copy(update={"tag": "2en"}),)})
    with pytest.raises(UserError, match="its source tokenizer has no tag <2en>"):
        train(tagged.model_copy(update={"data": data}))
    forged = yaml.safe_load(old.config_path.read_text())
    old.config_path.write_text(yaml.safe_dump(forged | {"tokenizer": of_run(old)}))
    with pytest.raises(UserError, match="the settings of its tokenizers are missing"):
        old.load_config()
    with pytest.raises(ValueError, match=r"nowhere/source/tokenizer\.json: cannot be read"):
        train_run(corpus, "names", tokenizer={"run_dir": "nowhere"})


@pytest.mark.slow
def test_a_dropout_that_the_weights_do_not_bear_is_named(corpus):
    """By the perplexity of the same pairs with it and without."""
    plain = {"embeddings": {"dim": 16}, **{side: TRANSFORMER | {"dropout": 0.0} for side in ("encoder", "decoder")}}
    fast = {"optimizer": {"kind": "adam", "lr": 0.03}, "batch": {"tokens": 128}, "max_duration": ["80 updates"]}
    old = train_run(corpus, "sure", model=plain, validation={"every": "80 updates", "metric": "loss"}, **fast)
    for dropout, is_named in ((0.0, False), (0.02, False), (0.6, True)):
        model = plain | {"encoder": TRANSFORMER | {"dropout": dropout}}
        run = train_run(corpus, f"after {dropout}", model=model, init_from=init_from(old), **NO_UPDATE)
        assert ("harms the initial weights" in log_of(run)) == is_named
    with_dropout, without = re.findall(r"perplexity ([\d.]+) with it, and ([\d.]+) without", log_of(run))[0]
    (first,) = metrics(run, "train")
    assert 2 * float(without) < min(float(with_dropout), first["perplexity"])
    assert float(without) == pytest.approx(metrics(old, "train")[-1]["perplexity"], rel=0.5)
