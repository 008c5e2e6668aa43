"""Any bytes as training text: prepared with counts that add up, or an error with file and line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from pydantic import TypeAdapter

from seq2attn.data.data_config import DataConfig
from seq2attn.data.prepare import prepare
from seq2attn.errors import DataError
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from seq2attn.tokenizers.vocabulary import EOS, PAD
from tests.support.fuzzing import fuzz

TOKENIZERS: dict[str, Any] = {
    "words": {"source": {"kind": "words"}, "target": {"kind": "words"}},
    "frequent words": {"joint": {"kind": "words", "vocab_size": 9, "lowercase": True, "normalization": "nfkc"}},
    "characters": {"source": {"kind": "characters"}, "target": {"kind": "characters", "normalization": "none"}},
    "bpe": {"joint": {"kind": "bpe", "vocab_size": 400, "dropout": 0.1}},
    "unigram": {
        "source": {"kind": "unigram", "vocab_size": 300, "character_coverage": 0.98},
        "target": {"kind": "words"},
    },
}
MESSAGES_WITHOUT_FILE = ("no text to train subwords on", "too small for the characters of the text")
LONG = {
    "words": b"word " * 50_000,
    "a word": b"x" * 250_000,
    "accents": "ß\u0301".encode() * 60_000,
    "tabs": b"a b\t" * 60_000,
}
"""Lines of 250 kB."""

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
valid = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12).map(str.encode)
line = st.one_of(valid, valid, valid, st.lists(piece, max_size=5).map(b" ".join))
end = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"", b"\r"])
content = st.one_of(
    st.lists(valid, min_size=1, max_size=8).map(lambda lines: b"".join(one + b"\n" for one in lines)),
    st.lists(st.tuples(line, end), max_size=8).map(lambda lines: b"".join(a + b for a, b in lines)),
    st.binary(max_size=30),
)
"""The content of a file."""
filters = st.sampled_from([{}, {}, {"max_length": 3}, {"max_length_ratio": 1.5}])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpora")


def corpora(home: Path, kind: str, contents: tuple[bytes, bytes, bytes, bytes]) -> dict[str, Any]:
    """The config of train and dev in a format, with the content of the files."""
    config: dict[str, Any] = {}
    for name, *sides in (("train", *contents[:2]), ("dev", *contents[2:])):
        keys = ("source", "target") if kind == "plain" else ("path",)
        config[name] = {"kind": kind, **{key: home / f"{name}.{key}" for key in keys}}
        for key, content in zip(keys, sides, strict=False):
            config[name][key].write_bytes(content)
    return config


def parallel(source: bytes, target: bytes) -> bytes:
    """A target with as many lines as its source."""
    lines = target.split(b"\n") or [b""]
    count = source.count(b"\n") + (not source.endswith(b"\n") and source != b"")
    return b"".join(lines[i % len(lines)] + b"\n" for i in range(count))


def check_prepare(home: Path, data: dict[str, Any], tokenizer: str) -> None:
    shutil.rmtree(home / "run", ignore_errors=True)
    config = TypeAdapter(TokenizersConfig).validate_python(TOKENIZERS[tokenizer])
    try:
        prepared = prepare(DataConfig.model_validate(data), config, home / "run", lambda line: None)
    except DataError as error:
        message = str(error)
        assert message and "Traceback" not in message
        assert str(home) in message or any(known in message for known in MESSAGES_WITHOUT_FILE), message
        return
    (train,), report = DataConfig.model_validate(data).train, prepared.train.parts[0].report
    num_pairs = sum(1 for _ in train.pairs())
    num_left_out = sum(value for name, value in vars(report).items() if name not in ("num_kept", "num_read"))
    assert report.num_kept + num_left_out == num_pairs and len(prepared.train.corpus) == report.num_kept > 0
    assert len(prepared.dev) == len(prepared.dev_sources) == len(prepared.dev_references[0])
    for (source, target), text in zip(prepared.dev, prepared.dev_sources, strict=True):
        assert list(source) == prepared.source.encode(text)
        for ids, side in ((source, prepared.source), (target, prepared.target)):
            assert all(EOS < i < len(side.vocabulary) for i in ids) and PAD not in ids
            decoded = side.decode([int(i) for i in ids])
            assert len(decoded.splitlines()) <= 1 and decoded == decoded.encode().decode()


tokenizers = st.sampled_from([*TOKENIZERS])
kinds = st.sampled_from(["plain", "plain", "tsv", "jsonl"])
objects = st.lists(
    st.dictionaries(
        st.sampled_from(["source", "target", "x"]),
        st.one_of(st.text(max_size=9), st.none(), st.integers(0, 9)),
        max_size=3,
    ).map(lambda item: json.dumps(item).encode()),
    min_size=1,
    max_size=6,
).map(b"\n".join)
rows = st.lists(st.lists(valid, max_size=3).map(b"\t".join), min_size=1, max_size=6).map(b"\n".join)
tables = st.one_of(st.tuples(st.just("jsonl"), objects), st.tuples(st.just("tsv"), rows))
pairs = st.one_of(
    st.tuples(kinds, st.tuples(content, content, content, content)),
    tables.map(lambda table: (table[0], (table[1], b"", table[1], b""))),
)


@fuzz(st.tuples(pairs, tokenizers, filters, st.booleans()), quick=60, slow=1960)
def test_text_is_prepared_or_an_error_with_its_place(home, case):
    (kind, (source, target, dev, reference)), tokenizer, filters, is_parallel = case
    if is_parallel:
        target, reference = parallel(source, target), parallel(dev, reference)
    data = {**corpora(home, kind, (source, target, dev, reference)), "filters": filters}
    check_prepare(home, data, tokenizer)


@fuzz(st.tuples(tokenizers, st.sampled_from([*LONG]), st.booleans(), content), quick=2, slow=40)
def test_long_lines_are_prepared_or_an_error(home, case):
    tokenizer, long, is_first, content = case
    source = LONG[long] + b"\n" + content if is_first else content + LONG[long] + b"\n"
    data = corpora(home, "plain", (source, parallel(source, b"a b"), b"a\n", b"b\n"))
    check_prepare(home, data, tokenizer)
