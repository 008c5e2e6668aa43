"""Errors of the user: one message with place and fix on standard error, nothing on standard output, exit code 2."""

import shutil
from pathlib import Path

import pytest

from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.commands import WORDS, Invoke, Toy, command, run_process, write_toy

CONFIGS = Path(__file__).parents[2] / "configs"
NO_ENCODER_ATTENTION = (
    "there is no attention to draw: the model has no encoder self-attention; it has cross-attention"
    " (--attention-kind cross)\n"
)


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
        assert message.startswith(f"error: project: `{first}` would be replaced, and is not of a run; set another")
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


@pytest.mark.parametrize(
    ("command_", "config", "other"),
    [
        ("train", "sweeps/phrasebook", "sweep"),
        ("sweep", "phrasebook", "train"),
        ("reproduce", "phrasebook", "train"),
        ("train", "reproduce/iwslt14", "reproduce"),
    ],
)
def test_a_config_for_another_command(mistake, command_: str, config: str, other: str) -> None:
    path = f"{CONFIGS}/{config}.yaml"
    assert mistake(command_, path) == f"{path}: is a config for `seq2attn {other}`\n"


class TestOptions:
    def test_train(self, mistake, toy: Toy) -> None:
        message = mistake("train", toy.config, "--resume", "--resume-if-exists")
        assert message == "error: give either --resume or --resume-if-exists, not both\n"
        message = mistake("train", toy.config, "--new-dev-set")
        assert message == "error: --new-dev-set has no effect on a new training; give --resume too\n"
        assert "already contains a training" in mistake("train", toy.config, "--set", f"run_dir={toy.run}")

    @pytest.mark.parametrize(
        "name",
        ["translate", "evaluate", "score", "align", "align --select-head --gold none", "distill --source a -o b",
         "back-translate --target a -o b"],
    )  # fmt: skip
    def test_devices(self, mistake, toy: Toy, name: str) -> None:
        files = ("--source", toy.folder / "text/short.de", "--target", toy.folder / "text/short.en")
        for device in ("foo", "cuda:99", "meta"):
            more = files if name.startswith(("score", "align")) else ()
            message = mistake(*name.split(), toy.run, *more, "--device", device)
            assert message.startswith(f"error: there is no device `{device}` here; known: auto, cpu")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--n-best", 5], "5 translations of a line need a search at least as wide; this one finds 4 (--beam 5,"),
            (["--greedy", "--beam", 3], "--greedy and --beam exclude each other"),
            (["-i", "in.de"], "give sentences or --input, not both"),
            (["-o", "no/out.en"], "no/out.en: cannot be written: No such file or directory"),
            (["-o", "."], ".: cannot be written: Is a directory"),
            (["--attention", "a.gif"], "a.gif: cannot draw a `.gif` file; use one of .png, .svg, .pdf, .html"),
            (["--attention", "a.html", "-o", "a.en", "--layer", 2], "there is no layer `2`: its cross-attention has 1"),
            (["--attention", "a.svg", "--attention-kind", "encoder"], NO_ENCODER_ATTENTION),
            (["--set", "model.decoder.dim=48"], "--set model.decoder.dim=48: has no effect here; this command uses"),
            (["--set", "data.filters.max_length=9"], "--set data.filters.max_length=9: has no effect here"),
        ],
    )
    def test_translate(self, mistake, toy: Toy, tmp_path: Path, arguments: list[str], message: str) -> None:
        assert mistake("translate", toy.run, "rot", *arguments).startswith(f"error: {message}")
        assert not list(tmp_path.iterdir())

    def test_distill(self, mistake, toy: Toy) -> None:
        arguments = ("--source", "in.de", "-o", "out", "--set", "evaluation.tokenize=13a")
        assert "this command uses only `search`, `data.filters` of" in mistake("distill", toy.run, *arguments)

    def test_a_missing_input(self, mistake, toy: Toy, tmp_path: Path) -> None:
        message = "error: in.de: cannot be read: No such file or directory\n"
        assert mistake("translate", toy.run, "-i", "in.de", "-o", "out.en") == message
        assert not list(tmp_path.iterdir())

    def test_a_path_that_is_not_valid(self, mistake, toy: Toy, tmp_path: Path) -> None:
        (tmp_path / "loop").symlink_to("loop")
        dev = ("--dev-source", "a", "--dev-target", "b")
        for name, reason in (("~nobody-here/a", "Could not determine home directory"), ("loop", "Symlink loop")):
            for command_ in (
                ("init", name, "a", *dev),
                ("evaluate", toy.run, "--source", name, "--reference", "a"),
                ("score", toy.run, "--source", name, "--target", "a"),
                ("align", toy.run, "--source", name, "--target", "a"),
                ("distill", toy.run, "--source", name, "-o", "out"),
            ):
                assert mistake(*command_).startswith(f"error: {name}: is not a valid path: {reason}")

    def test_evaluate_and_average(self, mistake, toy: Toy) -> None:
        assert mistake("evaluate", toy.run, "--source", "a.de") == "error: give --source and --reference together\n"
        assert "a.gif: cannot draw a `.gif` file" in mistake("evaluate", toy.run, "--plot", "a.gif")
        assert mistake("evaluate", toy.run, "--source", "a.de", "--reference", "a.en") == (
            f"error: {Path.cwd()}/a.de: there is no such file\n"
        )
        assert mistake("evaluate", toy.run, "--set", "data.filters.max_length=9").endswith(
            "has no effect here; this command uses only `search`, `evaluation`, `data.test` of the config\n"
        )
        for options in ([], ["--last", 1, "--best", 1]):
            assert mistake("average", toy.run, *options) == "error: give either --last N or --best N\n"


@pytest.mark.slow
def test_without_standard_input(toy: Toy, tmp_path: Path) -> None:
    done = run_process(tmp_path, ["sh", "-c", '"$@" <&-', "-", *command("translate", toy.run)])
    assert (done.code, done.err) == (2, "error: there is no standard input; give sentences or --input\n")
