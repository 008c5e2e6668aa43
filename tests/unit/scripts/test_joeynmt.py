"""`scripts/joeynmt.py`: the text and the config of Joey NMT are those of the run."""

from pathlib import Path

import joeynmt
import pytest
from sacrebleu import corpus_bleu

from seq2attn.data.prepared_data import load_prepared
from seq2attn.evaluation.evaluate import EvaluationSet, SetResult, read_sets, write_report
from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.search.search_config import BeamConfig
from seq2attn.sweep.plan import load_plan
from seq2attn.training.train import train
from tests.support.trainings import MODELS, content, last_state, train_run

ROOT = Path(__file__).resolve().parents[3]
TRIALS = {trial.name: trial.experiment for trial in load_plan(ROOT / "configs/sweeps/joeynmt.yaml").trials}


def test_the_text_is_that_of_the_run(corpus, tmp_path):
    run = train_run(corpus, "run", tokenizer={"joint": {"kind": "bpe", "vocab_size": 300}}, max_duration=["2 epochs"])
    assert joeynmt.write_text(run, tmp_path) == len(load_prepared(run.folder).train.corpus)
    tokens = (tmp_path / "vocab.joey.txt").read_text("utf-8").split("\n")
    for suffix, language, tokenizer in zip(("src", "tgt"), ("de", "en"), run.load_tokenizers(), strict=True):
        lines = (tmp_path / f"train.bpe.{language}").read_text("utf-8").split("\n")[:-1]
        texts = [tokenizer.decode([tokens.index(token) for token in line.split()]) for line in lines]
        assert texts == (corpus / f"train.{suffix}").read_text("utf-8").splitlines()
        assert len((tmp_path / f"val50.bpe.{language}").read_text("utf-8").splitlines()) == 6
    updates, epochs = joeynmt.last_update(run)
    assert (updates, epochs) == (last_state(run).update, 2)


def test_translations_are_of_one_text_search_and_update(corpus, tmp_path):
    dev, metrics = ExperimentConfig.model_validate(content(corpus, "run")).data.dev, EvaluationConfig()
    (corpus / "new.src").write_text((corpus / "dev.src").read_text("utf-8").replace("\n", " a\n", 1), "utf-8")
    sets = [
        EvaluationSet.read("dev", one, metrics) for one in (dev, dev.model_copy(update={"source": corpus / "new.src"}))
    ]
    wide, narrow = ({"testing": {"beam_size": size}, "training": {"updates": 7}} for size in (10, 5))
    longer = {**wide, "training": {"updates": 8}}
    settings = [(sets[0], wide), (sets[1], wide), (sets[0], narrow), (sets[0], longer)]
    assert len({joeynmt.translation_path(tmp_path, *one) for one in settings}) == 4


def test_each_column_has_the_translations_of_its_toolkit(corpus, tmp_path):
    """A program in the place of Joey NMT "trains" an empty checkpoint, and its translations are the sources."""
    program = tmp_path / "python"
    program.write_text("""#!/bin/sh
folder=$(sed -n 's/^model_dir: //p' "$4")
case "$3" in
    train) rm -f "$folder/kept"; mkdir -p "$folder" && touch "$folder/$(sed -n 's/^  updates: //p' "$4").ckpt" ;;
    translate) cat ;;
esac
""")
    program.chmod(0o755)
    settings = content(
        corpus,
        "run",
        model=MODELS["recurrent"],
        tokenizer={"joint": {"kind": "bpe", "vocab_size": 300}},
        lr_schedule={"kind": "inverse-sqrt", "warmup_updates": 1},
        max_duration=["1 update"],
    )
    settings["data"]["test"] = {"test": settings["data"]["dev"]}
    settings["search"] = {"kind": "beam", "lengths": {"length_penalty": "gnmt"}}
    run = train(ExperimentConfig.model_validate(settings))
    (test,) = read_sets(run.load_config().data.test, run.load_config().evaluation)
    half = [one if place % 2 else "x" for place, one in enumerate(test.references[0])]
    scores = tuple(test.metrics.scores(half, test.references))
    result = SetResult("test", test.digests, len(half), scores, (), 1.0, 1, tuple(half), None, ())
    write_report(run, run.weights_origin(), result, BeamConfig(), "")
    ((label, name, ours, theirs, p),) = joeynmt.compare(run, str(program))
    expected = [corpus_bleu(lines, test.references).score for lines in (half, test.sources)]
    assert [label, name, ours, theirs] == [f"{corpus.name}/run", "test", *(f"{bleu:.2f}" for bleu in expected)]
    assert 0 < float(p) < 1 and ours != theirs
    kept = run.folder / "joeynmt/model/kept"
    kept.touch()
    assert joeynmt.compare(run, str(program)) == [[label, name, ours, theirs, p]]
    assert kept.exists()  # it is trained again only with other options
    text = run.config_path.read_text("utf-8").replace("warmup_updates: 1", "warmup_updates: 2")
    run.config_path.write_text(text, "utf-8")
    assert joeynmt.compare(run, str(program)) == [[label, name, ours, theirs, p]]
    assert not kept.exists()


@pytest.mark.parametrize("per_epoch", [5, 62, 277])
def test_an_epoch_has_as_many_updates(per_epoch):
    size = joeynmt.sentences_per_batch(29_000, 1400, 1400 / per_epoch)
    assert -(-29_000 // size) == per_epoch


@pytest.mark.parametrize("name", TRIALS)
def test_the_config_is_that_of_the_trial(name):
    experiment = TRIALS[name]
    config = joeynmt.joey_config(experiment, Path("folder"), 1400, 107)
    training, ours = config["training"], experiment.training
    assert (training["updates"], training["validation_freq"]) == (1400, 1400)
    assert (training["batch_size"], training["batch_type"]) == (107, "sentence")
    assert training["learning_rate"] == ours.optimizer.lr and training["adam_betas"] == [*ours.optimizer.betas]
    assert training["learning_rate_warmup"] == ours.lr_schedule.warmup_updates
    assert training["label_smoothing"] == ours.label_smoothing > 0 and training["clip_grad_norm"] == ours.max_grad_norm
    assert config["random_seed"] == ours.seed and config["data"]["train"] == "folder/train.bpe"
    testing, search = config["testing"], experiment.search
    assert (testing["beam_size"], testing["beam_alpha"]) == (search.beam_size, search.lengths.alpha)
    model, encoder, decoder = config["model"], experiment.model.encoder, experiment.model.decoder
    assert model["encoder"]["num_layers"] == encoder.layers and model["decoder"]["num_layers"] == decoder.layers
    assert model["encoder"]["embeddings"]["embedding_dim"] == experiment.model.embeddings.dim
    if name == "transformer":
        assert model["tied_softmax"] and model["decoder"]["ff_size"] == decoder.ffn_dim
        dropouts = {encoder.dropout, encoder.attention_dropout, decoder.attention_dropout, decoder.attention.dropout}
        assert dropouts == {model["encoder"]["dropout"]}  # it has one for all
    else:
        assert 2 * model["encoder"]["hidden_size"] == encoder.dim and model["decoder"]["hidden_size"] == decoder.dim
        assert model["decoder"]["rnn_type"] == model["encoder"]["rnn_type"] == encoder.kind == decoder.cell
        assert model["decoder"]["attention"] == name


def test_other_architectures_are_refused(corpus):
    experiment = ExperimentConfig.model_validate(content(corpus, "run", model=MODELS["hard"]))
    with pytest.raises(SystemExit, match="Luong's decoder"):
        joeynmt.model_options(experiment.model)
