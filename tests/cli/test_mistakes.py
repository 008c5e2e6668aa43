"""A user's mistake is said in a sentence that names the place and the fix, and exits with 2."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import CONFIG, Done, Invoke, Toy, command, run_process, write_toy


@pytest.fixture
def mistake(invoke: Invoke):
    """What `seq2attn` says about a mistake; nothing goes to standard output."""

    def said(*arguments: object, given: bytes = b"") -> str:
        done: Done = invoke(*arguments, given=given, code=2)
        assert done.out == ""
        return done.err

    return said


class TestConfig:
    def test_all_mistakes_at_once(self, mistake, tmp_path: Path) -> None:
        config = CONFIG.replace("kind: gru", "kind: gruu").replace("beam_size: 4", "beam_size: wide")
        (tmp_path / "bad.yaml").write_text(config, encoding="utf-8")
        assert mistake("train", "bad.yaml", "--set", "training.sede=3") == (
            "<command line>:1:10: unknown key `training.sede`; did you mean `seed`?\n"
            "  |\n1 | training.sede=3\n  |          ^^^^\n\n"
            "bad.yaml:12:19: `model.encoder` has no kind `gruu`; did you mean `gru`?\n"
            "   |\n12 |   encoder: {kind: gruu, dim: 32}\n   |                   ^^^^\n\n"
            "bad.yaml:22:33: `search.beam_size` should be a whole number, not 'wide'\n"
            "   |\n22 | search: {kind: beam, beam_size: wide}\n   |                                 ^^^^\n\n"
            "3 mistakes in bad.yaml\n"
        )
        assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]

    def test_parts_that_do_not_fit(self, mistake, toy: Toy) -> None:
        score = "model.decoder={kind: luong, dim: 48, attention: {score: {kind: dot}}}"
        assert "compares the decoder, 48 wide, with an encoder 32 wide" in mistake(
            "train", toy.config, "--set", score, "--dry-run"
        )


class TestData:
    @pytest.fixture
    def text(self, tmp_path: Path) -> Path:
        write_toy(tmp_path)
        return tmp_path / "text"

    def test_missing(self, mistake, text: Path) -> None:
        (text / "dev.de").unlink()
        assert mistake("train", "toy.yaml").endswith(f"error: {text}/dev.de: there is no such file\n")


class TestRun:
    def test_none(self, mistake) -> None:
        said = "error: nowhere: is no run directory (it has no config.yaml); train it, or give another run directory\n"
        assert mistake("translate", "nowhere", "rot") == said
        assert mistake("evaluate", "nowhere") == said
        assert mistake("average", "nowhere", "--last", 1) == said

    def test_no_model_yet(self, invoke: Invoke, mistake, tmp_path: Path) -> None:
        write_toy(tmp_path)
        invoke("prepare", "toy.yaml")
        assert mistake("translate", "runs/toy", "rot") == (
            "error: runs/toy/model.safetensors: there is no such file; "
            "was the training stopped before its first checkpoint?\n"
        )
        assert mistake("train", "toy.yaml", "--resume") == (
            "error: runs/toy: has no checkpoint to resume; train without --resume\n"
        )
        assert mistake("average", "runs/toy", "--best", 1) == (
            "error: runs/toy: has 0 checkpoints, not 1; average fewer, or train with more validations and a larger"
            " `training.checkpoints.keep_best`\n"
        )

    def test_a_torn_model(self, invoke: Invoke, mistake, run_copy: Path) -> None:
        before = invoke("translate", run_copy, "rot").out
        weights = run_copy / "model.safetensors"
        torn = weights.read_bytes()[:-100]
        weights.unlink()
        weights.write_bytes(torn)
        done = invoke("translate", run_copy, "rot")
        assert done.out == before
        assert f"warning: {weights}: the weights cannot be read (" in done.err
        shutil.rmtree(run_copy / "checkpoints")
        said = mistake("translate", run_copy, "rot")
        assert said.startswith(f"error: {weights}: the weights cannot be read (")
        assert said.endswith(f"; restore them with `seq2attn average {run_copy} --best 1`\n")

    def test_no_origin(self, invoke: Invoke, run_copy: Path) -> None:
        origin = invoke("evaluate", run_copy).out
        (run_copy / "weights.json").write_text("{}", encoding="utf-8")
        assert invoke("evaluate", run_copy).out.split("\n")[:3] == origin.split("\n")[:3]  # the weights say it too

    def test_a_config_that_was_edited(self, mistake, run_copy: Path) -> None:
        config = run_copy / "config.yaml"
        edited = yaml.safe_load(config.read_text(encoding="utf-8"))
        edited["model"]["decoder"]["dim"] = 48
        config.write_text(yaml.safe_dump(edited), encoding="utf-8")
        said = mistake("translate", run_copy, "rot")
        assert said.startswith(f"error: {run_copy}/model.safetensors: `decoder.")
        assert said.endswith(" in the model of the config\n")

    def test_resuming_with_another_model(self, mistake, toy: Toy, run_copy: Path) -> None:
        changed = ["--set", f"run_dir={run_copy}", "--set", "model.decoder.dim=48"]
        assert mistake("train", toy.config, "--resume", *changed) == (
            f"error: {run_copy}: was trained with another `model`; resume with its config"
            f" ({run_copy}/config.yaml), or set another `run_dir`\n"
            "  config: `model.decoder.dim` was 32 and is 48\n"
        )


class TestSwapped:
    """Files of two runs in one: said by the vocabularies, never by the size of a tensor."""

    @pytest.fixture
    def other(self, invoke: Invoke, toy: Toy, tmp_path: Path) -> Path:
        """A run on other text."""
        changed = [
            "tokenizer.joint=",
            "tokenizer.source={kind: words}",
            "tokenizer.target={kind: words}",
            "training.max_duration=[1 updates]",
        ]
        overrides = [part for change in [*changed, "run_dir=other"] for part in ("--set", change)]
        invoke("train", toy.config, *overrides)
        return tmp_path / "other"

    def test_swapped(self, mistake, run_copy: Path, toy: Toy, other: Path) -> None:
        differ = (
            "{run}/model.safetensors: was trained with another vocabulary. {run}/source/vocabulary.json: "
            "is not the vocabulary expected: {found} entries, expected {expected}; "
            "the first difference is entry 4: {first}, expected {wanted}"
        )
        shutil.copy(other / "model.safetensors", run_copy)
        here = {"run": run_copy, "found": 300, "expected": 11, "first": "'<0x00>'", "wanted": "'und'"}
        assert mistake("translate", run_copy, "rot") == f"error: {differ.format(**here)}\n"

        shutil.copy(toy.run / "model.safetensors", run_copy)
        for side in ("source", "target"):
            shutil.rmtree(run_copy / side)
            shutil.copytree(other / side, run_copy / side)
        here = {"run": run_copy, "found": 11, "expected": 300, "first": "'und'", "wanted": "'<0x00>'"}
        assert mistake("evaluate", run_copy) == f"error: {differ.format(**here)}\n"

        newest = run_copy / "checkpoints" / "00000200" / "model.safetensors"
        there = f"error: {newest}: was trained with another vocabulary. "
        assert mistake("average", run_copy, "--last", 1).startswith(there)
        resumed = mistake("train", toy.config, "--resume", "--set", f"run_dir={run_copy}")
        of_other = f"error: {run_copy}/data/train: the prepared ids are not of these tokenizers"
        assert resumed.splitlines()[-1].startswith(of_other)


class TestOptions:
    @pytest.mark.parametrize("device", ["foo", "cuda:99", "cpu:x"])
    def test_devices(self, mistake, toy: Toy, device: str) -> None:
        said = f"error: there is no device `{device}` here; known: auto, cpu"
        assert mistake("translate", toy.run, "rot", "--device", device).startswith(said)
        assert mistake("evaluate", toy.run, "--device", device).startswith(said)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (
                ["--n-best", 5],
                "5 translations of a line need a search at least as wide; this one finds 4 (--beam 5,"
                " in Python beam_size=5)",
            ),
            (
                ["--n-best", 2, "--greedy"],
                "2 translations of a line need a search at least as wide; this one finds 1 (--beam 2,"
                " in Python beam_size=2)",
            ),
            (["--greedy", "--beam", 3], "--greedy and --beam exclude each other"),
            (["-i", "in.de"], "give sentences or --input, not both"),
            (["-o", "no/out.en"], "no/out.en: cannot be written: No such file or directory"),
            (["-o", "."], ".: cannot be written: Is a directory"),
            (
                ["--attention", "a.gif"],
                "a.gif: cannot draw a `.gif` file; use one of .png, .svg, .pdf, .html",
            ),
            (
                ["--attention", "a.html", "-o", "a.en", "--layer", 2],
                "there is no layer `2`: its cross-attention has 1; use 1, top or all",
            ),
            (
                ["--attention", "a.svg", "--attention-kind", "encoder"],
                "there is no attention to draw: the model has no encoder self-attention; it has cross-attention "
                "(--attention-kind cross)",
            ),
            (
                ["--whole-words"],
                "options of the attention picture need its file: --attention FILE",
            ),
        ],
    )
    def test_translate(self, mistake, toy: Toy, tmp_path: Path, arguments: list[str], said: str) -> None:
        assert mistake("translate", toy.run, "rot", *arguments) == f"error: {said}\n"
        assert not list(tmp_path.iterdir())

    def test_what_a_trained_run_keeps(self, mistake, toy: Toy) -> None:
        assert mistake("translate", toy.run, "rot", "--set", "model.decoder.dim=48") == (
            "error: --set model.decoder.dim=48: `model` cannot change after training;"
            " `search`, `data`, `evaluation` can\n"
        )

    def test_nothing_to_read(self, mistake, toy: Toy, tmp_path: Path) -> None:
        said = "error: in.de: cannot be read: No such file or directory\n"
        assert mistake("translate", toy.run, "-i", "in.de", "-o", "out.en") == said
        assert not list(tmp_path.iterdir())

    def test_evaluate(self, mistake, toy: Toy) -> None:
        assert mistake("evaluate", toy.run, "--source", "a.de") == "error: give --source and --reference together\n"
        assert mistake("evaluate", toy.run, "--plot", "a.gif") == (
            "error: a.gif: cannot draw a `.gif` file; use one of .png, .svg, .pdf\n"
        )
        assert mistake("evaluate", toy.run, "--source", "a.de", "--reference", "a.en") == (
            f"error: {Path.cwd()}/a.de: there is no such file\n"
        )

    def test_average(self, mistake, toy: Toy) -> None:
        for both in ([], ["--last", 1, "--best", 1]):
            assert mistake("average", toy.run, *both) == "error: give either --last N or --best N\n"

    def test_a_device_is_written_to_and_not_replaced(self, invoke: Invoke, toy: Toy, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        invoke("translate", toy.run, "rot", "-o", pipe)
        assert os.read(reader, 100).endswith(b"\n")
        assert pipe.is_fifo()


def test_without_standard_input(toy: Toy, tmp_path: Path) -> None:
    done = run_process(tmp_path, ["sh", "-c", '"$@" <&-', "-", *command("translate", toy.run)])
    assert (done.code, done.err) == (2, "error: there is no standard input; give sentences or --input\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_is_read_only(mistake, run_copy: Path) -> None:
    run_copy.chmod(0o500)
    assert mistake("evaluate", run_copy) == f"error: {run_copy}/evaluation: Permission denied\n"


def test_a_run_that_is_no_folder(mistake, tmp_path: Path) -> None:
    write_toy(tmp_path)
    (tmp_path / "taken").touch()
    assert mistake("train", "toy.yaml", "--set", "run_dir=taken") == (
        "error: taken: cannot be written to (File exists); give another `run_dir` (--set run_dir=DIR)\n"
    )
