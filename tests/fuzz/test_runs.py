"""Run directories with any file spoilt: refused with a clear error, or the same translations as before."""

from __future__ import annotations

import io
import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import strategies as st

from seq2attn.engines.export_directory import write_manifest
from seq2attn.engines.targets import get_target
from seq2attn.io.files import atomic_dir
from tests.diagnostics.runs import FAMILIES, make_run
from tests.fuzz.fuzzed import command, fuzzed

SENTENCES = ("ba be bi", "nul xa", "be")
TEXTS = {
    "words": {"source": {"kind": "words"}, "target": {"kind": "words"}},
    "pieces": {"joint": {"kind": "bpe", "vocab_size": 320}},
    "exported": {"joint": {"kind": "unigram", "vocab_size": 320}},
}


UNSEALED = ("config.yaml", "*/tokenizer.json", "*/sentencepiece.model")
"""What holds no digest: changed by hand, or by a bit that flipped, it may mean something else."""


@dataclass(frozen=True)
class Kept:
    """A sound run, what it says, and a place for spoilt copies of it."""

    run: Path
    files: tuple[str, ...]  # those that translating reads three times
    said: str
    copy: Path
    engine: str


def translated(run: Path, engine: str) -> tuple[int, str, str]:
    """The exit code, what is said, and what is warned of or refused."""
    handler = logging.StreamHandler(io.StringIO())
    logging.getLogger("seq2attn").addHandler(handler)
    try:
        done = command("translate", run, *SENTENCES, "--json", "--n-best", "2", "--engine", engine)
    finally:
        logging.getLogger("seq2attn").removeHandler(handler)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done.exit_code, done.stdout, done.stderr + handler.stream.getvalue()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kept]:
    """A run of words, one of pieces, and one that was exported."""
    kept = {}
    for name, text in TEXTS.items():
        folder = tmp_path_factory.mktemp(name)
        engine = "ctranslate2" if name == "exported" else "native"
        run = make_run(folder, *FAMILIES["transformer" if name == "exported" else "fixed"], tokenizer=text)
        if name == "exported":
            target = get_target(engine)
            with atomic_dir(run.folder / engine) as partial:
                target.export(run, partial, "float32")
                write_manifest(run, target, "float32", {}, partial)
        files = sorted(str(p.relative_to(run.folder)) for p in run.folder.rglob("*") if p.is_file())
        code, said, warned = translated(run.folder, engine)
        assert code == 0 and said.count("\n") == len(SENTENCES), warned
        read = [file for file in files if not file.startswith("data") and "sample" not in file]
        kept[name] = Kept(run.folder, (*files, *read, *read), said, folder / "copy", engine)
    return kept


spoil = st.tuples(
    st.sampled_from(
        ["truncate", "flip", "flip", "flip", "replace byte", "insert", "delete", "empty", "folder", "link", "swap",
         "other", "digit", "zero"]
    ),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 255),
)  # fmt: skip
"""What is done to which file, with which other, where in it, and with which byte."""


def spoilt(root: Path, files: tuple[str, ...], how: str, which: int, other: int, where: float, byte: int) -> None:
    path, second = root / files[which % len(files)], root / files[other % len(files)]
    if not path.is_file() or not second.is_file():
        return
    content = bytearray(path.read_bytes())
    place = int(where * len(content))
    match how:
        case "truncate":
            path.write_bytes(content[:place])
        case "flip" if content:
            content[place] ^= 1 << byte % 8
            path.write_bytes(content)
        case "replace byte" if content:
            content[place] = byte
            path.write_bytes(content)
        case "insert":
            path.write_bytes(content[:place] + bytes([byte]) * (1 + byte % 9) + content[place:])
        case "zero":
            path.write_bytes(content[:place] + bytes(len(content) - place))
        case "digit":  # a number becomes another one
            digits = [i for i, old in enumerate(content) if chr(old).isdecimal()]
            if digits:
                content[digits[place % len(digits)]] = ord("0") + byte % 10
                path.write_bytes(content)
        case "delete":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "folder":
            path.unlink()
            path.mkdir()
        case "link":
            path.unlink()
            path.symlink_to(("/dev/zero", "/etc/hostname", second, root, path)[byte % 5])
        case "swap":
            second_content = second.read_bytes()
            second.write_bytes(content)
            path.write_bytes(second_content)
        case "other":
            path.write_bytes(second.read_bytes())


cases = st.tuples(st.sampled_from([*TEXTS]), st.lists(spoil, min_size=1, max_size=2))


@fuzzed("run directories", cases, quick=30, slow=1000)
def test_a_spoilt_run_is_refused_or_right(home, case):
    name, spoils = case
    kept = home[name]
    shutil.rmtree(kept.copy, ignore_errors=True)
    shutil.copytree(kept.run, kept.copy)
    for one in spoils:
        spoilt(kept.copy, kept.files, *one)
    code, said, warned = translated(kept.copy, kept.engine)
    assert "Traceback" not in warned
    if code == 0:
        assert_right(said, kept, warned)
    else:
        assert code == 2 and said == "" and warned.strip(), (code, said, warned)
        assert str(kept.copy) in warned, warned


def assert_right(said: str, kept: Kept, warned: str) -> None:
    """The translations of the sound run; others where what makes them has changed, and is sound."""
    one, other = ([json.loads(line) for line in text.splitlines()] for text in (said, kept.said))
    texts = [[f.read_bytes() for n in UNSEALED for f in sorted(r.glob(n))] for r in (kept.copy, kept.run)]
    assert one == other or (texts[0] != texts[1] and len(one) == len(other)), warned
