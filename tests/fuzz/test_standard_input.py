"""Any bytes on the standard input of `translate`: one line out per line in, in UTF-8."""

import json
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.support.family_runs import FAMILIES, make_run
from tests.support.fuzzing import command, fuzz

TEXTS = {
    "words": {"source": {"kind": "words"}, "target": {"kind": "words"}},
    "bytes": {"joint": {"kind": "bpe", "vocab_size": 300}},  # most of its entries are bytes, "\n" and "\r" among them
    "characters": {"source": {"kind": "characters"}, "target": {"kind": "characters"}},
}

word = st.one_of(
    st.sampled_from(
        [b"ba", b"be", b"nul", b" ", b"\t", b"\r", b"\r\n", b"\x00", b"\x0b", b"\x0c", b"\x1c", b"\x7f", b"\xc2\x85",
         b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xff", b"\xc0\x80", b"\xf4\x90\x80\x80",
         b"<unk>", b"</s>", b"<s>", b"<pad>", b"<0x0A>", b"\xe2\x96\x81", b"\xef\xbf\xad", b"\\n",
         b"\"", b"\xf0\x9f\x98"]
    ),
    st.binary(max_size=6),
    st.text(max_size=4).map(lambda text: text.encode("utf-8", "replace")),
)  # fmt: skip
line = st.lists(word, max_size=6).map(b" ".join)
lines = st.lists(line, max_size=5).map(b"\n".join)
content = st.one_of(lines, lines.map(lambda text: text + b"\n"), st.binary(max_size=60))
SHORT = ("--set", "search.lengths.max_source_length=3")
options = st.sampled_from(
    [[], ["--json"], ["--greedy", "--json"], ["--greedy"], ["--beam", "2"], ["--beam", "3", "--n-best", "3"],
     ["--n-best", "2", "--json"],
     ["--set", "search={kind: sample, num_samples: 2, temperature: 3}", "--n-best", "2"],
     ["--long-inputs", "split", *SHORT], ["--long-inputs", "truncate", *SHORT]]
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    runs = {}
    for name, text in TEXTS.items():
        folder = tmp_path_factory.mktemp(name)
        runs[name] = make_run(folder, *FAMILIES["fixed"], tokenizer=text).folder
    return runs


@fuzz(st.tuples(st.sampled_from([*TEXTS]), options, content), quick=15, slow=1000)
def test_one_line_out_per_line_in(home, case):
    name, arguments, stdin = case
    done = command("translate", home[name], *arguments, stdin=stdin)
    assert done.exit_code == 0, (done.exception, done.stderr)
    assert all(line.isprintable() for line in done.stderr.split("\n"))
    count = stdin.count(b"\n") + (not stdin.endswith(b"\n") and stdin != b"")
    out = done.stdout_bytes.decode("utf-8")
    assert out.endswith("\n") or not out
    printed = out.split("\n")[:-1]
    assert printed == out.splitlines()  # which breaks lines at "\r", U+2028 and others too
    if "--json" in arguments:
        objects = [json.loads(one) for one in printed]
        assert len(objects) == count
        for one, raw in zip(objects, stdin.split(b"\n"), strict=False):
            assert {"source", "text", "score", "tokens"} <= one.keys()
            assert "\ufffd" in one["source"] or one["source"].encode() in raw
    elif "--n-best" in arguments:
        numbers = [int(one.split("\t")[0]) for one in printed]
        assert all(len(one.split("\t")) == 3 for one in printed)
        assert numbers == sorted(numbers) and {*numbers} == {*range(1, count + 1)}
    else:
        assert len(printed) == count


def test_json_has_no_other_line_breaks(home):
    done = command("translate", home["words"], "--json", stdin="ba\u2028be\u2029\nbi\x85".encode())
    assert [json.loads(one)["source"] for one in done.stdout.splitlines()] == ["ba\u2028be\u2029", "bi\x85"]
