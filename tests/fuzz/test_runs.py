"""Run directories with corrupt files: refused with a clear error, or the same translations as before."""

import io
import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import strategies as st

from seq2attn.exporters.export_run import TARGETS
from seq2attn.inference.engines.exported import write_manifest
from seq2attn.io.files import atomic_dir
from tests.support.family_runs import FAMILIES, make_run
from tests.support.fuzzing import command, fuzz

SENTENCES = ("ba be bi", "nul xa", "be")
TEXTS = {
    "words": {"source": {"kind": "words"}, "target": {"kind": "words"}},
    "pieces": {"joint": {"kind": "bpe", "vocab_size": 320}},
    "exported": {"joint": {"kind": "unigram", "vocab_size": 320}},
}
UNSEALED = ("config.yaml", "*/tokenizer.json", "*/sentencepiece.model")
"""Files without a digest: a changed one may give other translations."""


@dataclass(frozen=True)
class Original:
    """A run, its output, and the path of its corrupt copies."""

    run: Path
    files: tuple[str, ...]  # those that translating reads are there three times
    output: str
    copy: Path
    engine: str


def translate_run(run: Path, engine: str) -> tuple[int, str, str]:
    handler = logging.StreamHandler(io.StringIO())
    logging.getLogger("seq2attn").addHandler(handler)
    try:
        done = command("translate", run, *SENTENCES, "--json", "--n-best", "2", "--engine", engine)
    finally:
        logging.getLogger("seq2attn").removeHandler(handler)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done.exit_code, done.stdout, done.stderr + handler.stream.getvalue()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Original]:
    originals = {}
    for name, text in TEXTS.items():
        folder = tmp_path_factory.mktemp(name)
        engine = "ctranslate2" if name == "exported" else "native"
        run = make_run(folder, *FAMILIES["transformer" if name == "exported" else "fixed"], tokenizer=text)
        if name == "exported":
            target = TARGETS[engine]
            with atomic_dir(run.folder / engine) as partial:
                target.export(run, partial, "float32")
                write_manifest(run, target.name, "float32", {}, partial)
        files = sorted(str(p.relative_to(run.folder)) for p in run.folder.rglob("*") if p.is_file())
        code, output, messages = translate_run(run.folder, engine)
        assert code == 0 and output.count("\n") == len(SENTENCES), messages
        read = [file for file in files if not file.startswith("data") and "sample" not in file]
        originals[name] = Original(run.folder, (*files, *read, *read), output, folder / "copy", engine)
    return originals


corruption = st.tuples(
    st.sampled_from(
        ["truncate", "flip", "flip", "flip", "insert", "delete", "folder", "link", "swap", "digit", "zero"]
    ),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 255),
)  # fmt: skip
"""The kind of corruption, the file, another file, the place in it, and a byte."""


def corrupt(root: Path, files: tuple[str, ...], how: str, which: int, other: int, where: float, byte: int) -> None:
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


cases = st.tuples(st.sampled_from([*TEXTS]), st.lists(corruption, min_size=1, max_size=2))


@fuzz(cases, quick=20, slow=1000)
def test_a_corrupt_run_is_refused_or_translates_as_before(home, case):
    name, corruptions = case
    original = home[name]
    shutil.rmtree(original.copy, ignore_errors=True)
    shutil.copytree(original.run, original.copy)
    for one in corruptions:
        corrupt(original.copy, original.files, *one)
    code, output, messages = translate_run(original.copy, original.engine)
    assert "Traceback" not in messages
    if code == 0:
        before, after = ([json.loads(line) for line in text.splitlines()] for text in (original.output, output))
        roots = (original.copy, original.run)
        changed, unchanged = ([f.read_bytes() for n in UNSEALED for f in sorted(r.glob(n))] for r in roots)
        assert after == before or (changed != unchanged and len(after) == len(before)), messages
    else:
        assert code == 2 and output == "" and str(original.copy) in messages, (code, output, messages)
