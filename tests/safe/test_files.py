"""Only regular files of limited size are read, and files are written where their path says, and complete."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from seq2attn.errors import RunError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import MAX_FILE_BYTES, atomic_dir, read_bytes, read_object, remove_temporary, write_bytes
from seq2attn.io.weights import load_tensors, read_tensor_specs
from seq2attn.tokenizers.vocabulary import Vocabulary
from seq2attn.training.checkpoints.checkpoint import save_checkpoint
from seq2attn.training.train_state import TrainState
from tests.support.commands import Invoke
from tests.support.untrained_runs import SWEEP, TRANSFORMER_CONFIG, untrained_run

FIX = "mend it"


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**36)


def content(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


INVALID: dict[str, Callable[[Path], object]] = {
    "device": device,
    "sparse": sparse,
    "folder": Path.mkdir,
    "empty": Path.touch,
    "deep": content(b"[" * 2**20),
    "bytes": content(bytes(range(256))),
    "pipe": os.mkfifo,
    "deep object": content(b'{"a":' * 2**20),
    "digits": content(b'{"a": ' + b"1" * 2**20 + b"}"),
    "half a character": content(b'{"a": "\\ud800"'),
    "pickle": lambda path: torch.save({"a": torch.ones(1)}, path),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_json_and_weights_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "it"
    INVALID[name](path)
    with pytest.raises(RunError, match=FIX) as error:
        read_object(path, FIX)
    assert str(error.value).startswith(f"{path}: ")
    for read in (read_tensor_specs, load_tensors):
        with pytest.raises(RunError, match=f"^{path}: "):
            read(path)


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(bytes(MAX_FILE_BYTES))
    assert len(read_bytes(tmp_path / "it", FIX)) == MAX_FILE_BYTES
    (tmp_path / "it").write_bytes(bytes(MAX_FILE_BYTES + 1))
    with pytest.raises(RunError, match="has more than the 33,554,432 bytes"):
        read_bytes(tmp_path / "it", FIX)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_links_are_replaced_and_not_written_to(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("mine", encoding="utf-8")
    link(outside, folder / "it")
    write_bytes(folder / "it", b"theirs")
    assert outside.read_text() == "mine" and not (folder / "it").is_symlink()
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("it", "theirs")]


def test_a_folder_behind_a_link_is_not_written_to(tmp_path: Path) -> None:
    outside, link = tmp_path / "outside", tmp_path / "export"
    outside.mkdir()
    (outside / "it").write_text("mine", encoding="utf-8")
    link.symlink_to(outside)
    with atomic_dir(link) as partial:
        (partial / "it").write_text("theirs", encoding="utf-8")
    assert (outside / "it").read_text() == "mine" and (link / "it").read_text() == "theirs"
    assert {path.name for path in tmp_path.iterdir()} == {"outside", "export"} and not link.is_symlink()


def test_names_beside_a_folder_are_the_users(tmp_path: Path) -> None:
    """Two writers at once do not share a temporary folder, and what is not temporary stays."""
    for name in ("it.partial", "it.removed", "it.12345678.parts"):
        write_bytes(tmp_path / name / "mine", b"")
    (tmp_path / "it.01234567.removed").mkdir()
    with atomic_dir(tmp_path / "it") as first, atomic_dir(tmp_path / "it") as second:
        assert first != second
        (second / "it").touch()
    assert not [*(tmp_path / "it").iterdir()]  # of the first, which is the last to be renamed
    remove_temporary(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"it", "it.partial", "it.removed", "it.12345678.parts"}
    assert all((tmp_path / f"it.{kind}/mine").is_file() for kind in ("partial", "removed"))


def test_evaluation_writes_inside_the_run(tmp_path: Path, invoke: Invoke) -> None:
    """The names of test sets are also names of output files."""
    run = untrained_run(tmp_path)
    invoke("evaluate", run.folder, "--greedy")
    before = {path.name for path in tmp_path.iterdir()}
    config = run.config_path.read_text(encoding="utf-8")
    for name in ("../../stray", "/tmp/stray", "..", "a/b", ""):
        run.config_path.write_text(config.replace("    ours:", f"    '{name}':"), encoding="utf-8")
        error = invoke("evaluate", run.folder, "--greedy", code=2).err
        assert "config.yaml:" in error and "is also a file name" in error
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("command", "inputs"),
    [
        ("translate", ("--input", "--glossary")),
        ("score", ("--source", "--target")),
        ("align", ("--source", "--target", "--gold")),
    ],
)
def test_an_output_does_not_replace_an_input(
    tmp_path: Path, invoke: Invoke, command: str, inputs: tuple[str, ...]
) -> None:
    run = untrained_run(tmp_path)
    for option in inputs:
        (tmp_path / option).write_bytes(b"few\tare\n" if option == "--glossary" else b"0-0\n")
    arguments = [command, run.folder, *(part for option in inputs for part in (option, tmp_path / option))]
    (tmp_path / "link").symlink_to(tmp_path / inputs[0])
    for output in (*inputs, "link"):
        error = invoke(*arguments, "-o", tmp_path / output, code=2).err
        assert error == f"error: {tmp_path / output}: is an input of this command too; give another name\n"
        assert all((tmp_path / option).stat().st_size > 3 for option in inputs)
    invoke(*arguments, "-o", tmp_path / "new")
    invoke(*arguments, "-o", tmp_path / "new")  # an earlier output


@pytest.mark.parametrize("make", [os.mkfifo, device])
def test_endless_files_are_not_read(tmp_path: Path, invoke: Invoke, make: Callable[[Path], None]) -> None:
    config = TRANSFORMER_CONFIG.replace("dev: {kind: plain,", "dev: {kind: plain, alignment: links.txt,")
    run = untrained_run(tmp_path, config)
    (tmp_path / "lines.txt").unlink()
    make(tmp_path / "lines.txt")
    of_run = [
        ("evaluate", run.folder),
        ("export", run.folder, "--to", "ctranslate2"),
        ("align", run.folder, "--select-head"),
    ]
    for command in (*of_run, ("prepare", "own.yaml", "--set", "run_dir=new")):
        error = invoke(*command, code=2).err
        assert "is not a regular file; write text from a pipe or a device to a file first" in error
    (tmp_path / "sweep.yaml").write_text(SWEEP.format("own.yaml"), encoding="utf-8")
    assert "cannot be read (it is not a regular file)" in invoke("sweep", "sweep.yaml", code=2).err
    run.config_path.unlink()
    make(run.config_path)
    for command in (("config", "show"), ("config", "check"), ("train",), ("prepare",)):
        error = invoke(*command, run.config_path, code=2).err
        assert f"cannot read {run.config_path}: it is not a regular file" in error


Call = tuple[str, Path, Path | bytes | None]
"""`sync` of a file with its content then, or of a folder; or `rename` from one path to another."""
VOCABULARIES = Vocabulary.from_tokens(["a"]), Vocabulary.from_tokens(["b"])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    recorded: list[Call] = []
    real = {name: getattr(os, name) for name in ("fsync", "rename", "replace")}

    def fsync(descriptor: int) -> None:
        real["fsync"](descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        recorded.append(("sync", path, path.read_bytes() if path.is_file() else None))

    def renaming(name: str) -> object:
        def rename(old: os.PathLike[str], new: os.PathLike[str]) -> None:
            recorded.append(("rename", Path(old), Path(new)))
            real[name](old, new)

        return rename

    monkeypatch.setattr(os, "fsync", fsync)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, renaming(name))
    return recorded


@pytest.mark.parametrize("name", ["it", "model.safetensors"])
def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, calls: list[Call], name: str) -> None:
    path = tmp_path / name
    if name == "it":
        write_bytes(path, b"content")
    else:
        RunDirectory(tmp_path).save_model({"weight": torch.ones(2)}, VOCABULARIES, {"checkpoints": ["1"]})
    partial = calls[0][1]
    assert partial.parent == tmp_path and partial != path
    assert calls[:3] == [("sync", partial, path.read_bytes()), ("rename", partial, path), ("sync", tmp_path, None)]


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path: Path, calls: list[Call]) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    saved = save_checkpoint(tmp_path, model, VOCABULARIES, optimizer, TrainState(7), {})
    ((renamed, partial),) = [
        (place, call[1]) for place, call in enumerate(calls) if (call[0], call[2]) == ("rename", saved.folder)
    ]
    assert partial.parent == saved.folder.parent
    before = calls[:renamed]
    contents = [call[2] for call in before if call[0] == "sync"]
    files = sorted(saved.folder.iterdir())
    assert [file.name for file in files] == ["model.safetensors", "optimizer.safetensors", "train_state.json"]
    assert all(file.read_bytes() in contents for file in files)
    assert ("sync", partial, None) in before
    assert calls[renamed + 1 :] == [("sync", saved.folder.parent, None)]
