"""Errors of the user: one message with place and fix on standard error, nothing on standard output, exit code 2."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import CONFIG, Invoke, Toy, command, run_process, write_toy


@pytest.fixture
def mistake(invoke: Invoke):
    """The error message of a command."""

    def run(*arguments: object) -> str:
        done = invoke(*arguments, code=2)
        assert done.out == ""
        return done.err

    return run


class TestConfig:
    def test_all_mistakes_at_once(self, mistake, tmp_path: Path) -> None:
        config = CONFIG.replace("kind: gru", "kind: gruu").replace("beam_size: 4", "beam_size: wide")
        (tmp_path / "bad.yaml").write_text(config, encoding="utf-8")
        blocks = mistake("train", "bad.yaml", "--set", "training.sede=3").split("\n\n")
        assert [block.split("\n")[0] for block in blocks] == [
            "<command line>:1:10: unknown key `training.sede`; did you mean `seed`?",
            "bad.yaml:12:19: `model.encoder` has no kind `gruu`; did you mean `gru`?",
            "bad.yaml:22:33: `search.beam_size` should be a whole number, not 'wide'",
            "3 mistakes in bad.yaml",
        ]
        assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]

    def test_components_that_do_not_fit(self, mistake, toy: Toy) -> None:
        score = "model.decoder={kind: luong, dim: 48, attention: {score: {kind: dot}}}"
        assert "compares the decoder, 48 wide, with an encoder 32 wide" in mistake(
            "train", toy.config, "--set", score, "--dry-run"
        )

    def test_missing_text(self, mistake, tmp_path: Path) -> None:
        write_toy(tmp_path)
        (tmp_path / "text/dev.de").unlink()
        assert mistake("train", "toy.yaml").endswith(f"error: {tmp_path}/text/dev.de: there is no such file\n")


class TestRun:
    def test_no_run(self, mistake) -> None:
        message = "error: nowhere: is no run directory (it has no config.yaml);"
        for arguments in (["translate", "nowhere", "rot"], ["evaluate", "nowhere"], ["average", "nowhere", "--last=1"]):
            assert mistake(*arguments).startswith(message)

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
        message = mistake("average", "runs/toy", "--best", 1)
        assert " 0 checkpoints, not 1;" in message and message.endswith(" `training.checkpoints.keep_best`\n")

    def test_truncated_weights(self, invoke: Invoke, mistake, run_copy: Path) -> None:
        before = invoke("translate", run_copy, "rot").out
        weights = run_copy / "model.safetensors"
        content = weights.read_bytes()
        weights.unlink()
        weights.write_bytes(content[:-100])
        done = invoke("translate", run_copy, "rot")
        assert done.out == before
        assert f"warning: {weights}: the weights cannot be read (" in done.err
        shutil.rmtree(run_copy / "checkpoints")
        message = mistake("translate", run_copy, "rot")
        assert message.startswith(f"error: {weights}: the weights cannot be read (")
        assert message.endswith(f"; restore them with `seq2attn average {run_copy} --best 1`\n")

    def test_an_edited_config(self, mistake, run_copy: Path) -> None:
        config = run_copy / "config.yaml"
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
        content["model"]["decoder"]["dim"] = 48
        config.write_text(yaml.safe_dump(content), encoding="utf-8")
        message = mistake("translate", run_copy, "rot")
        assert message.startswith(f"error: {run_copy}/model.safetensors: `decoder.")
        assert message.endswith(" in the model of the config\n")

    def test_resuming_with_another_model(self, mistake, toy: Toy, run_copy: Path) -> None:
        assert mistake("train", toy.config, "--resume", f"--set=run_dir={run_copy}", "--set=model.decoder.dim=48") == (
            f"error: {run_copy}: was trained with another `model`; resume with its config"
            f" ({run_copy}/config.yaml), or set another `run_dir`\n"
            "  config: `model.decoder.dim` was 32 and is 48\n"
        )

    def test_files_of_another_run(self, invoke: Invoke, mistake, run_copy: Path, toy: Toy, tmp_path: Path) -> None:
        """The message names the vocabularies, not the shape of a tensor."""
        changes = ["tokenizer.joint=", "tokenizer.source={kind: words}", "tokenizer.target={kind: words}"]
        changes += ["training.max_duration=[1 updates]", "run_dir=other"]
        invoke("train", toy.config, *(f"--set={change}" for change in changes))
        other = tmp_path / "other"
        message = (
            "error: {run}/model.safetensors: was trained with another vocabulary. {run}/source/vocabulary.json: "
            "is not the vocabulary expected: {entries}, expected {wanted}\n"
        )
        shutil.copy(other / "model.safetensors", run_copy)
        entries = "300 entries, expected 11; the first difference is entry 4: '<0x00>'"
        assert mistake("translate", run_copy, "rot") == message.format(run=run_copy, entries=entries, wanted="'und'")

        shutil.copy(toy.run / "model.safetensors", run_copy)
        for side in ("source", "target"):
            shutil.rmtree(run_copy / side)
            shutil.copytree(other / side, run_copy / side)
        entries = "11 entries, expected 300; the first difference is entry 4: 'und'"
        assert mistake("evaluate", run_copy) == message.format(run=run_copy, entries=entries, wanted="'<0x00>'")

        newest = run_copy / "checkpoints" / "00000200" / "model.safetensors"
        assert f"{newest}: was trained with another vocabulary. " in mistake("average", run_copy, "--last", 1)
        resumed = mistake("train", toy.config, "--resume", "--set", f"run_dir={run_copy}")
        assert f"error: {run_copy}/data/train: the prepared ids are not of these tokenizers" in resumed

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_read_only_run(self, mistake, run_copy: Path) -> None:
        run_copy.chmod(0o500)
        assert mistake("evaluate", run_copy) == f"error: {run_copy}/evaluation: Permission denied\n"

    def test_a_file_in_the_place_of_the_run(self, mistake, tmp_path: Path) -> None:
        write_toy(tmp_path)
        (tmp_path / "file").touch()
        assert mistake("train", "toy.yaml", "--set", "run_dir=file") == (
            "error: file: cannot be written to (File exists); give another `run_dir` (--set run_dir=DIR)\n"
        )


class TestOptions:
    def test_devices(self, mistake, toy: Toy) -> None:
        for device, command_ in (("foo", ("translate", toy.run, "rot")), ("cuda:99", ("evaluate", toy.run))):
            message = mistake(*command_, "--device", device)
            assert message.startswith(f"error: there is no device `{device}` here; known: auto, cpu")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["--n-best", 5],
                "5 translations of a line need a search at least as wide; this one finds 4 (--beam 5,"
                " in Python beam_size=5)",
            ),
            (["--greedy", "--beam", 3], "--greedy and --beam exclude each other"),
            (["-i", "in.de"], "give sentences or --input, not both"),
            (["-o", "no/out.en"], "no/out.en: cannot be written: No such file or directory"),
            (["-o", "."], ".: cannot be written: Is a directory"),
            (["--attention", "a.gif"], "a.gif: cannot draw a `.gif` file; use one of .png, .svg, .pdf, .html"),
            (
                ["--attention", "a.html", "-o", "a.en", "--layer", 2],
                "there is no layer `2`: its cross-attention has 1; use 1, top or all",
            ),
            (
                ["--attention", "a.svg", "--attention-kind", "encoder"],
                "there is no attention to draw: the model has no encoder self-attention; it has cross-attention "
                "(--attention-kind cross)",
            ),
            (["--set", "model.decoder.dim=48"], "--set model.decoder.dim=48: `model` cannot change after training"),
        ],
    )
    def test_translate(self, mistake, toy: Toy, tmp_path: Path, arguments: list[str], message: str) -> None:
        assert mistake("translate", toy.run, "rot", *arguments).startswith(f"error: {message}")
        assert not list(tmp_path.iterdir())

    def test_a_missing_input(self, mistake, toy: Toy, tmp_path: Path) -> None:
        message = "error: in.de: cannot be read: No such file or directory\n"
        assert mistake("translate", toy.run, "-i", "in.de", "-o", "out.en") == message
        assert not list(tmp_path.iterdir())

    def test_evaluate_and_average(self, mistake, toy: Toy) -> None:
        assert mistake("evaluate", toy.run, "--source", "a.de") == "error: give --source and --reference together\n"
        assert "a.gif: cannot draw a `.gif` file" in mistake("evaluate", toy.run, "--plot", "a.gif")
        assert mistake("evaluate", toy.run, "--source", "a.de", "--reference", "a.en") == (
            f"error: {Path.cwd()}/a.de: there is no such file\n"
        )
        for options in ([], ["--last", 1, "--best", 1]):
            assert mistake("average", toy.run, *options) == "error: give either --last N or --best N\n"


def test_without_standard_input(toy: Toy, tmp_path: Path) -> None:
    done = run_process(tmp_path, ["sh", "-c", '"$@" <&-', "-", *command("translate", toy.run)])
    assert (done.code, done.err) == (2, "error: there is no standard input; give sentences or --input\n")
