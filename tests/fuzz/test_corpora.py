"""Any bytes as training text: prepared, with counts that add up, or refused with the file and the line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from pydantic import TypeAdapter

from seq2attn.data.config import DataConfig
from seq2attn.data.prepare import prepare
from seq2attn.errors import DataError
from seq2attn.tokenizers.config import TokenizersConfig
from seq2attn.tokenizers.vocabulary import EOS, PAD
from tests.fuzz.fuzzed import command, fuzzed

TEXTS: dict[str, Any] = {
    "words": {"source": {"kind": "words"}, "target": {"kind": "words"}},
    "frequent words": {"joint": {"kind": "words", "vocab_size": 9, "lowercase": True, "normalization": "nfkc"}},
    "characters": {
        "source": {"kind": "characters"},
        "target": {"kind": "characters", "normalization": "none"},
    },
    "bpe": {"joint": {"kind": "bpe", "vocab_size": 400, "dropout": 0.1}},
    "unigram": {
        "source": {"kind": "unigram", "vocab_size": 300, "character_coverage": 0.98},
        "target": {"kind": "words"},
    },
}
OF_ALL_TEXT = ("no text to train subwords on", "too small for the characters of the text")
"""What is said of no line in particular."""
LONG = {
    "words": b"word " * 200_000,
    "a word": b"x" * 1_000_000,
    "accents": "ß\u0301".encode() * 250_000,
    "tabs": b"a b\t" * 250_000,
}
"""Lines of a megabyte."""

piece = st.one_of(
    st.sampled_from(
        [b"the", b"cat", b"sat", b"Die", "Größe".encode(), b" ", b"\t", b"\x00", b"\r", b"\x0b", b"\x0c", b"\x1c",
         b"\xc2\x85", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xef\xbb\xbf", b"\xed\xb2\x80", b"\xff\xfe",
         b"<s>", b"</s>", b"<unk>", b"<pad>", b"<0x41>", b"\xe2\x96\x81", b"\xef\xbf\xad", b"{}", b'["a", "b"]', b"\\",
         b'{"source": "a", "target": "b"}', b'{"source": "\\ud800", "target": 1}', b"0-0 1-1", b"\xf0\x9f\x92\xa9"]
    ),
    st.text(max_size=3).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=4),
)  # fmt: skip
sound = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12).map(str.encode)
line = st.one_of(sound, sound, sound, st.lists(piece, max_size=5).map(b" ".join))
end = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"", b"\r"])
whole = st.one_of(
    st.lists(sound, min_size=1, max_size=8).map(lambda some: b"".join(one + b"\n" for one in some)),
    st.lists(st.tuples(line, end), max_size=8).map(lambda some: b"".join(a + b for a, b in some)),
    st.binary(max_size=30),
)
"""A file."""
filters = st.sampled_from([{}, {}, {"max_length": 3}, {"max_length_ratio": 1.5}])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where text is written to, and prepared."""
    return tmp_path_factory.mktemp("corpora")


def corpora(home: Path, form: str, contents: tuple[bytes, bytes, bytes, bytes]) -> dict[str, Any]:
    """The config of train and dev in one of the forms that text has."""
    found = {}
    for name, source, target in (("train", *contents[:2]), ("dev", *contents[2:])):
        if form == "plain":
            for side, content in (("source", source), ("target", target)):
                (home / f"{name}.{side}").write_bytes(content)
            found[name] = {"kind": form, **{s: home / f"{name}.{s}" for s in ("source", "target")}}
        else:
            (home / f"{name}.{form}").write_bytes(source)
            found[name] = {"kind": form, "path": home / f"{name}.{form}"}
    return found


def paired(source: bytes, target: bytes) -> bytes:
    """A target with as many lines as its source."""
    lines = target.split(b"\n") or [b""]
    count = source.count(b"\n") + (not source.endswith(b"\n") and source != b"")
    return b"".join(lines[i % len(lines)] + b"\n" for i in range(count))


def tried(home: Path, data: dict[str, Any], text: str) -> None:
    shutil.rmtree(home / "run", ignore_errors=True)
    config = TypeAdapter(TokenizersConfig).validate_python(TEXTS[text])
    try:
        prepared = prepare(DataConfig.model_validate(data), config, home / "run", lambda line: None)
    except DataError as error:
        message = str(error)
        assert message and "Traceback" not in message
        assert str(home) in message or any(said in message for said in OF_ALL_TEXT), message
        return
    (train,), report = DataConfig.model_validate(data).train, prepared.train.parts[0].report
    pairs = sum(1 for _ in train.pairs())
    left_out = sum(value for name, value in vars(report).items() if name not in ("num_kept", "num_read"))
    assert report.num_kept + left_out == pairs and len(prepared.train.corpus) == report.num_kept > 0
    assert len(prepared.dev) == len(prepared.dev_sources) == len(prepared.dev_references[0])
    for (source, target), text_of in zip(prepared.dev, prepared.dev_sources, strict=True):
        assert list(source) == prepared.source.encode(text_of)
        for ids, side in ((source, prepared.source), (target, prepared.target)):
            assert all(EOS < i < len(side.vocabulary) for i in ids) and PAD not in ids
            said = side.decode([int(i) for i in ids])
            assert len(said.splitlines()) <= 1 and said == said.encode().decode()


texts = st.sampled_from([*TEXTS])
forms = st.sampled_from(["plain", "plain", "tsv", "jsonl"])
cases = st.tuples(forms, texts, filters, st.booleans(), st.tuples(whole, whole, whole, whole))


@fuzzed("corpora", cases, quick=40, slow=1500)
def test_text_is_prepared_or_refused_with_its_place(home, case):
    form, text, left_out, is_paired, (source, target, dev, reference) = case
    if is_paired:
        target, reference = paired(source, target), paired(dev, reference)
    tried(home, {**corpora(home, form, (source, target, dev, reference)), "filters": left_out}, text)


objects = st.lists(
    st.dictionaries(
        st.sampled_from(["source", "target", "x"]),
        st.one_of(st.text(max_size=9), st.none(), st.integers(0, 9)),
        max_size=3,
    ).map(lambda item: json.dumps(item).encode()),
    min_size=1,
    max_size=6,
).map(b"\n".join)
rows = st.lists(st.lists(sound, max_size=3).map(b"\t".join), min_size=1, max_size=6).map(b"\n".join)


tables = st.one_of(st.tuples(st.just("jsonl"), objects), st.tuples(st.just("tsv"), rows))


@fuzzed("corpora", st.tuples(texts, tables), quick=20, slow=400)
def test_tables_are_prepared_or_refused_with_their_place(home, case):
    text, (form, content) = case
    tried(home, corpora(home, form, (content, b"", content, b"")), text)


@fuzzed("corpora", st.tuples(texts, st.sampled_from([*LONG]), st.booleans(), whole), quick=2, slow=40)
def test_lines_of_a_megabyte_are_prepared_or_refused(home, case):
    text, long, is_first, content = case
    source = LONG[long] + b"\n" + content if is_first else content + LONG[long] + b"\n"
    data = corpora(home, "plain", (source, paired(source, b"a b"), b"a\n", b"b\n"))
    tried(home, data, text)


@fuzzed("corpora", cases, quick=6, slow=60)
def test_the_command_says_so(home, case):
    form, text, left_out, _, contents = case
    shutil.rmtree(home / "run", ignore_errors=True)
    data = {**corpora(home, form, contents), "filters": left_out}
    config = {"run_dir": home / "run", "data": data, "tokenizer": TEXTS[text], "model": MODEL}
    (home / "config.yaml").write_text(json.dumps(config, default=str))
    done = command("prepare", home / "config.yaml")
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in (0, 2) and "Traceback" not in done.stderr


MODEL = {"encoder": {"kind": "gru", "dim": 8}, "decoder": {"kind": "fixed-context", "dim": 8}}
