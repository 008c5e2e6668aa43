"""`scripts/decoding.sh` translates by each method, and sacreBLEU compares them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seq2attn.inference.ensemble import load
from seq2attn.search.search_config import BeamConfig, GreedyConfig, SampleConfig
from tests.support.untrained_runs import TRANSFORMER_CONFIG, change_weights, untrained_run

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
    both = load(run.folder, ensemble=[other.folder])
    assert texts["ensemble"] == [one.text for one in both.translate(LINES, searches["beam-5"])] != texts["beam-5"]
    assert len(texts) == 11 and all(len(lines) == len(LINES) for lines in texts.values())
    rows = dict(line.split(maxsplit=1) for line in done.stdout.decode().splitlines()[1:] if line[:1].islower())
    assert {*rows} == {*texts}
    assert all(rows[name].endswith("1.000") for name in texts if texts[name] == texts["beam-5"] and name != "beam-5")
