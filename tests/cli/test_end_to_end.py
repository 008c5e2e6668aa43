"""Training, translation and evaluation of a small model by the commands."""

import gzip
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import seq2attn
from seq2attn.errors import UserError
from seq2attn.inference.input_checks import INVALID_UTF8
from tests.support.attention_pages import page_data
from tests.support.commands import ENVIRONMENT, ROOT, Invoke, Toy, command, invoke_in

SENTENCES = ["rot haus", "blau und alt"]


def test_a_wheel_has_the_whole_package(tmp_path: Path) -> None:
    """It is built from a copy, so that nothing is left behind in the checkout."""
    copy, site = tmp_path / "copy", tmp_path / "site"
    shutil.copytree(ROOT / "seq2attn", copy / "seq2attn", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, copy)
    build = "from setuptools.build_meta import build_wheel; build_wheel('..')"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    start = "from importlib.metadata import distribution as of; (one,) = of('seq2attn').entry_points; one.load()()"
    environment = {**ENVIRONMENT, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", start, "--version"], cwd=tmp_path, env=environment, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"seq2attn 0.1.0\n", b"")
    here = ROOT / "seq2attn"
    for path in [path for path in here.rglob("*") if path.is_file() and "__pycache__" not in path.parts]:
        assert (site / "seq2attn" / path.relative_to(here)).is_file(), path


class TestTrain:
    def test_prepare_and_train(self, toy: Toy) -> None:
        assert toy.prepared.out == toy.trained.out == ""
        assert "train: 120 pairs, dev: 12 pairs, short: 20 pairs, mixed: 60 pairs" in toy.prepared.err
        assert "runs/toy: already prepared from this text" in toy.trained.err
        assert "validation at update 100: " in toy.trained.err
        files = [path for path in toy.run.rglob("*") if path.is_file() and path.suffix != ".lock"]
        assert {path.stat().st_mode for path in files} == {toy.config.stat().st_mode}  # colleagues may read a run
        names = sorted(path.name for path in (toy.run / "checkpoints").iterdir())
        assert names[-2:] == ["00000075", "00000100"]

    def test_a_dry_run_needs_no_data(self, toy: Toy, tmp_path: Path) -> None:
        shutil.copy(toy.config, tmp_path)
        done = invoke_in(tmp_path, "train", "toy.yaml", "--dry-run")
        head, part = done.out.splitlines(), "decoder.attention.score.key_proj.weight"
        assert [line.partition(":")[0] for line in head] == ["model", "vocabularies", "memory", "batch", "time"]
        assert "300 and 300 entries (at most; 8,000 without a `vocab_size`)" in head[1] and "prepare CONFIG" in head[4]
        listed = invoke_in(tmp_path, "train", "toy.yaml", "--dry-run", "-v")
        assert listed.out.startswith(done.out) and part in listed.out and part not in done.out
        assert (done.err, [path.name for path in tmp_path.iterdir()]) == ("", ["toy.yaml"])

    def test_a_dry_run_measures_the_speed_with_prepared_text(self, toy: Toy) -> None:
        before = {path: path.stat().st_mtime_ns for path in toy.run.rglob("*")}
        *_, time = invoke_in(toy.config.parent, "train", "toy.yaml", "--dry-run").out.splitlines()
        assert re.match(r"time: [\d.e-]+ s an update, [\d.e-]+ s a validation, with 512 tokens on cpu", time)
        assert {path: path.stat().st_mtime_ns for path in toy.run.rglob("*")} == before


class TestTranslate:
    def test_one_line_out_per_line_in(self, toy: Toy, tmp_path: Path) -> None:
        odd = [b"\xef\xbb\xbfrot haus", b"", b"   ", b"rot " * 300, b"alt \xff boot", b"rot haus\r", b"\r", b"rot haus"]
        (tmp_path / "in.de").write_bytes(b"\n".join(odd))  # the last line has no end
        done = invoke_in(tmp_path, "translate", toy.run, "-i", "in.de", "-o", "out.en", "--greedy")
        undecoded, long, *_ = done.err.splitlines()
        assert (done.out, undecoded) == ("", f"warning: line 5: {INVALID_UTF8}")
        assert re.match(r"warning: line 4: too many tokens: the model was trained on none with more", long)
        latin = invoke_in(tmp_path, "translate", toy.run, "--greedy", given=b"alt \xff\n" * 8).err.splitlines()
        assert [line for line in latin if "UTF-8" in line] == [
            f"warning: lines 1, 2, 3, 4, 5 and 3 more: {INVALID_UTF8}"
        ]
        written = (tmp_path / "out.en").read_bytes()
        piped = invoke_in(tmp_path, "translate", toy.run, "--greedy", given=b"\n".join(odd) + b"\n")
        assert piped.out.encode() == written
        lines = written.decode().split("\n")
        assert len(lines) == len(odd) + 1
        assert lines[0] == lines[5] == lines[7] != ""  # also after a byte order mark and before a carriage return
        assert {lines[number] for number in (1, 2, 6, 8)} == {""}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.de", "out.en"]
        (tmp_path / "in.de.gz").write_bytes(gzip.compress((tmp_path / "in.de").read_bytes()))
        assert invoke_in(tmp_path, "translate", toy.run, "-i", "in.de.gz", "--greedy").out == piped.out

    @pytest.mark.filterwarnings("ignore::seq2attn.inference.input_checks.InputWarning")
    @pytest.mark.parametrize("times", [1, 80])  # a line that is split
    def test_lone_surrogates_are_replaced(self, toy: Toy, times: int) -> None:
        translator = seq2attn.load(toy.run)
        lines = [f"rot {character} haus" * times for character in ("\ud800", "\udcff", "\ufffd")]
        one, two, replaced = translator.translate(lines)
        assert one.text == two.text == replaced.text and bool(one.segments) == (times > 1)
        with pytest.raises(UserError, match=r"no translation can begin with 'ro\\udcff': it is not valid Unicode"):
            translator.translate("rot", prefix="ro\udcff")

    def test_lines_are_translated_as_they_come_until_an_interrupt(self, toy: Toy, tmp_path: Path) -> None:
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        words = command("translate", toy.run)
        with subprocess.Popen(words, cwd=tmp_path, env=ENVIRONMENT, **streams) as process:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            answers = []
            for sentence in [*SENTENCES, "", "rot haus"]:
                process.stdin.write(sentence.encode() + b"\n")
                process.stdin.flush()
                answers.append(process.stdout.readline())
            process.send_signal(signal.SIGINT)  # while it waits for the next line
            assert process.wait(20) == 130
            assert (process.stdout.read(), process.stderr.read()) == (b"", b"\ninterrupted\n")
        assert answers[2] == b"\n" and answers[0] == answers[3] != answers[1]

    def test_n_best_and_json(self, toy: Toy, tmp_path: Path) -> None:
        plain = invoke_in(tmp_path, "translate", toy.run, *SENTENCES, "--beam", "3", "--n-best", "3")
        rows = [line.split("\t") for line in plain.out.splitlines()]
        assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
        done = invoke_in(tmp_path, "translate", toy.run, *SENTENCES, "--beam", "3", "--n-best", "3", "--json")
        first, second = map(json.loads, done.out.splitlines())
        assert (first["source"], second["source"]) == tuple(SENTENCES)
        best = [second, *second["alternatives"]]
        assert [row[1:] for row in rows[3:]] == [[f"{one['score']:.4f}", one["text"]] for one in best]
        assert [one["score"] for one in best] == sorted((one["score"] for one in best), reverse=True)

    def test_attention_of_every_line_as_a_page(self, toy: Toy, tmp_path: Path) -> None:
        options = "--attention", "page.html", "--color-scale", "row", "--whole-words"
        invoke_in(tmp_path, "translate", toy.run, *SENTENCES, "", *options)
        data = page_data((tmp_path / "page.html").read_text(encoding="utf-8"))
        sentences = data["explorations"]
        assert len(sentences) == len(SENTENCES) and data["scale"] == "row"
        for sentence, line in zip(sentences, SENTENCES, strict=True):
            (drawn,) = sentence["attention"].values()
            assert sentence["run"] == str(toy.run)
            assert drawn["keys"]["tokens"] == [*line.split(), "</s>"]

    def test_attention_of_an_encoder(self, invoke: Invoke, toy: Toy, tmp_path: Path) -> None:
        run, encoder = tmp_path / "few", "model.encoder={kind: transformer, layers: 2, heads: 4, ffn_dim: 16}"
        changes = [f"run_dir={run}", "training.max_duration=[2 updates]", encoder]
        invoke("train", toy.config, *(f"--set={change}" for change in changes))
        draw = ["translate", run, "rot haus", "--attention"]
        text = invoke(*draw, "-", "--attention-kind", "encoder", "--layer", "all", "--whole-words").out
        titles = [f"layer {layer}, mean of heads" for layer in (1, 2)]
        assert [line for line in text.splitlines() if "layer" in line] == titles
        assert sum(line.split()[:1] == ["haus"] for line in text.splitlines()) == 2
        invoke(*draw, "a.svg", "--attention-kind", "encoder", "--head", 3, "--color-scale", "row")
        picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
        for text in ("few", "rot haus", "weight/row max"):  # the run is the end of a long path
            assert f"{text} -->" in picture
        invoke(*draw, "a.html")
        data = page_data((tmp_path / "a.html").read_text(encoding="utf-8"))
        maps = data["explorations"][0]["attention"]
        assert {kind: len(one["weights"]) for kind, one in maps.items()} == {"cross": 1, "encoder": 2}
        assert data["scale"] == "max"
