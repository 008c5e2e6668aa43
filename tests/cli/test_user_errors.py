"""Errors of the user: one message with place and fix on standard error, nothing on standard output, exit code 2."""

import shutil
from pathlib import Path

import pytest

from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.commands import WORDS, Invoke, Toy, command, run_process, write_toy


class TestRun:
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

    def test_tokenizers_of_another_run(self, mistake, run_copy: Path, toy: Toy) -> None:
        """The message names the vocabularies, not the shape of a tensor."""
        for side in ("source", "target"):
            shutil.rmtree(run_copy / side)
            WordTokenizerConfig().train(WORDS).save(run_copy / side)
        message = (
            "{weights}: was trained with another vocabulary. {run}/source/vocabulary.json: is not the vocabulary"
            " expected: 11 entries, expected 300; the first difference is entry 4: 'alt', expected '<0x00>'"
        )
        for command_, weights in (
            (("evaluate", run_copy), run_copy / "model.safetensors"),
            (("average", run_copy, "--last", 1), run_copy / "checkpoints/00000100/model.safetensors"),
        ):
            assert message.format(weights=weights, run=run_copy) in mistake(*command_)
        resumed = mistake("train", toy.config, "--resume", "--set", f"run_dir={run_copy}")
        assert f"error: {run_copy}/data/train: the prepared ids are not of these tokenizers" in resumed

    @pytest.mark.parametrize("name", ["config.yaml", "source/train.de", "target/train.en", "data/train/train.de"])
    @pytest.mark.parametrize("command_", ["train", "prepare"])
    def test_files_of_others_are_not_replaced(self, mistake, tmp_path: Path, command_: str, name: str) -> None:
        write_toy(tmp_path)
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True)
        path.write_text("my own\n", encoding="utf-8")
        message = mistake(command_, "toy.yaml", "--set", "run_dir=project")
        first = name.partition("/")[0]
        assert message.startswith(
            f"error: project: `{first}` would be replaced, and does not belong to a run; set another"
        )
        files = {file.relative_to(tmp_path / "project") for file in (tmp_path / "project").rglob("*") if file.is_file()}
        assert files <= {Path(name), Path("run.lock")} and path.read_text(encoding="utf-8") == "my own\n"

    def test_a_preparation_that_was_interrupted_goes_on(self, invoke: Invoke, tmp_path: Path) -> None:
        write_toy(tmp_path)
        (tmp_path / "runs/toy").mkdir(parents=True)
        (tmp_path / "runs/toy/notes.txt").write_text("mine\n", encoding="utf-8")
        invoke("train", "toy.yaml", "--set", "data.train.repeat=0.001", code=2)  # once the tokenizers are trained
        assert {path.name for path in (tmp_path / "runs/toy").iterdir()} >= {"source", "target", "notes.txt"}
        invoke("train", "toy.yaml", "--set", "training.max_duration=[2 updates]")
        assert (tmp_path / "runs/toy/model.safetensors").is_file() and (tmp_path / "runs/toy/notes.txt").is_file()


class TestOptions:
    @pytest.mark.parametrize(
        "name",
        ["translate", "evaluate", "score", "align", "align --select-head --gold none", "doctor",
         "distill --source a -o b", "back-translate --target a -o b"],
    )  # fmt: skip
    def test_devices(self, mistake, toy: Toy, name: str) -> None:
        files = ("--source", toy.folder / "text/short.de", "--target", toy.folder / "text/short.en")
        for device in ("foo", "cuda:99", "meta"):
            more = files if name.startswith(("score", "align")) else ()
            message = mistake(*name.split(), toy.run, *more, "--device", device)
            assert message.startswith(f"error: there is no device `{device}` here; known: auto, cpu")


@pytest.mark.slow
def test_without_standard_input(toy: Toy, tmp_path: Path) -> None:
    done = run_process(tmp_path, ["sh", "-c", '"$@" <&-', "-", *command("translate", toy.run)])
    assert (done.code, done.err) == (2, "error: there is no standard input; give sentences or --input\n")
