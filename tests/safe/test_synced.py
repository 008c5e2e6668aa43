"""Files and folders are on the disk before they get their name: system calls, recorded in their order."""

import os
from pathlib import Path

import pytest
import torch

from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import write_bytes
from seq2attn.tokenizers.vocabulary import Vocabulary
from seq2attn.training.checkpoints.checkpoint import save_checkpoint
from seq2attn.training.train_state import TrainState

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
