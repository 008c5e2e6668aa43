"""`scripts/bench.py` and `scripts/decoding.sh` end to end, with a small model."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmark.command import main

from seq2attn import TranslationOptions, load
from seq2attn.search.search_config import BeamConfig, GreedyConfig, SampleConfig
from tests.support.corpora import write_phrases
from tests.support.untrained_runs import TRANSFORMER_CONFIG, change_weights, untrained_run

ROOT = Path(__file__).resolve().parents[2]

CONFIG = """
run_dir: {folder}/run
data:
  train: {{kind: plain, source: {folder}/train.de, target: {folder}/train.en}}
  dev: {{kind: plain, source: {folder}/val.de, target: {folder}/val.en}}
tokenizer:
  joint: {{kind: bpe, vocab_size: 400}}
model:
  embeddings: {{dim: 16, tie: all}}
  encoder: &stack {{kind: transformer, layers: 1, heads: 2, ffn_dim: 16, norm_order: post}}
  decoder: {{<<: *stack, attention: {{score: {{kind: multi-head, heads: 2}}}}}}
training:
  lr_schedule: {{kind: inverse-sqrt, warmup_updates: 200}}
search: {{kind: beam, beam_size: 5, lengths: {{max_length: 20}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    write_phrases(folder, {"train": 200, "val": 60, "test_2016_flickr": 120})
    (folder / "t.yaml").write_text(CONFIG.format(folder=folder), "utf-8")
    return folder


def bench(folder, *arguments, model="t"):
    paths = {"corpus": folder, "configs": folder, "runs": folder / "runs"}
    options = [part for name, path in paths.items() for part in (f"--{name}", path)]
    command = [sys.executable, ROOT / "scripts/bench.py", *arguments, "--model", model, "--busy-ok", "--threads", 1]
    command += [*options, "--out", folder / "figures.json"]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def figures(folder):
    records = json.loads((folder / "figures.json").read_text("utf-8"))["records"]
    return {(record["kind"], record["case"], record["system"]): record for record in records}


@pytest.mark.slow
def test_training_beside_a_plain_loop(folder):
    short = "--rounds", "1", "--window", "0.3", "--warm", "0.1", "--tokens", "300"
    done = bench(folder, "train", "--peers", "plain", *short)
    assert done.returncode == 0, done.stderr
    records = figures(folder)
    training = records["train", "", "ours"]
    assert training["error"] == ""
    assert len(training["rounds"]) == 1
    assert min(training["rounds"]) > 0
    assert 0 < training["facts"]["tokens_an_update"] <= 300
    assert records["memory", "", "ours"]["rounds"][0] > 50
    assert len(records["train", "", "plain"]["rounds"]) == 1
    assert "| **seq2attn** |" in done.stdout


@pytest.mark.slow
def test_fitting_and_translation(folder):
    missing = bench(folder, "search", "--peers", "", "--case", "greedy", "--rounds", "1")
    assert missing.returncode == 0, missing.stderr
    assert "not measured: not fitted: python scripts/bench.py fit --model t" in missing.stdout
    overrides = "--set", "training.max_duration=[2 updates]", "--set", "training.validation.every=2 updates"
    fitted = bench(folder, "fit", "--peers", "", *overrides)
    assert (folder / "runs/t/model.safetensors").is_file(), fitted.stderr
    done = bench(folder, "search", "--peers", "", "--case", "greedy", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    record = figures(folder)["search", "greedy", "ours"]
    assert record["error"] in ("", "too few sentences: start-up takes as long")
    assert 0 < record["facts"]["mean_tokens"] <= record["facts"]["most_tokens"]


@pytest.mark.slow
def test_options_for_gpus_without_a_gpu(folder):
    shutil.copy(folder / "t.yaml", folder / "transformer-base.yaml")
    short = "--rounds", "1", "--window", "0.3", "--warm", "0.1", "--tokens", "300"
    done = bench(folder, "train", "--gpu", "--peers", "", *short, model="transformer-base")
    assert done.returncode == 0, done.stderr
    records = json.loads((folder / "figures.json").read_text("utf-8"))["records"]
    (rate,) = [record for record in records if (record["kind"], record["model"]) == ("train", "transformer-base")]
    assert rate["error"] == "" and rate["rounds"]


def test_an_unknown_peer_is_an_error(capsys):
    assert main(["train", "--peers", "nmtk"]) == 2
    assert "there is no peer `nmtk`; known: hf, plain" in capsys.readouterr().err


SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "decoding.sh"
LINES = ["a few words", "which words are not there", "many of a few", "words of which there are not many"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*the translation has the maximum length")
def test_each_method_is_compared_with_beam_search(tmp_path):
    run, other = (untrained_run(tmp_path / name, TRANSFORMER_CONFIG) for name in ("run", "other"))
    for one, scale in ((run, 3), (other, -3)):
        change_weights(one, lambda model, scale=scale: model.output_projection.weight.mul_(scale))
    source, reference, folder = tmp_path / "source", tmp_path / "reference", tmp_path / "decoding"
    source.write_text("".join(f"{line}\n" for line in LINES))
    reference.write_text("".join(f"{line}\n" for line in LINES[::-1]))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", SCRIPT, source, reference, folder, run.folder, other.folder]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    texts = {path.name: path.read_text().splitlines() for path in folder.iterdir()}
    lengths = run.load_config().search.lengths
    gnmt = lengths.model_copy(update={"length_penalty": "gnmt"})
    searches = {
        "beam-5": BeamConfig(lengths=lengths),
        "beam-10": BeamConfig(beam_size=10, lengths=lengths),
        "greedy": GreedyConfig(lengths=lengths),
        "gnmt-length-penalty": BeamConfig(lengths=gnmt),
        "gnmt-coverage-penalty": BeamConfig(coverage_penalty=0.2, lengths=gnmt),
        "mbr-of-samples": SampleConfig(num_samples=50, mbr=True, lengths=lengths),
    }
    translator = load(run.folder)
    for name, search in searches.items():
        assert texts[name] == [one.text for one in translator.translate(LINES, search)], name
    both = load(run.folder, TranslationOptions(ensemble=[other.folder]))
    assert texts["ensemble"] == [one.text for one in both.translate(LINES, searches["beam-5"])] != texts["beam-5"]
    assert len(texts) == 11 and all(len(lines) == len(LINES) for lines in texts.values())
    rows = dict(line.split(maxsplit=1) for line in done.stdout.decode().splitlines()[1:] if line[:1].islower())
    assert {*rows} == {*texts}
    assert all(rows[name].endswith("1.000") for name in texts if texts[name] == texts["beam-5"] and name != "beam-5")
