"""Tables of the benchmarks, and the page that is written from them."""

import pytest
from benchmark.records import Book, Record, ratio
from benchmark.tables import FIGURES, PAGE, comparison, fill, table


def record(system, rounds, **more):
    kind = more.pop("kind", "train")
    return Record(kind, "t", "", system, system.upper(), unit="target tokens/s", rounds=rounds, **more)


CONTEXT = {
    "date": "2026-01-02", "command": "python scripts/bench.py train", "commit": "abc", "processor": "P", "cores": 2,
    "threads": 2, "python": "3.11", "versions": {"ours": {"torch": "2.13.0"}, "hf": {"transformers": "5"}},
}  # fmt: skip


def test_the_ratio_is_the_median_of_the_rounds():
    one, other = record("ours", (30.0, 20.0, 90.0)), record("hf", (10.0, 20.0, 40.0))
    assert ratio(one, other, more_is_better=True) == 2.25  # that of the medians would be 1.5
    assert ratio(one, other, more_is_better=False) == pytest.approx(1 / 2.25)
    assert ratio(one, record("eole", ()), more_is_better=True) is None


def test_a_table_is_sorted_with_failures_last():
    rows = comparison(
        [
            record("hf", (1000.0, 1500.0, 1200.0), variant="attention dropout 0", facts={"bleu": 20.5}),
            record("eole", (), error="no update within 240 s: a | b\nmore"),
            record("ours", (3000.0, 3100.0, 2900.0)),
        ],
        more_is_better=True,
    ).split("\n")
    assert rows[0] == "|  | target tokens/s | min-max | ours is | BLEU |"
    assert rows[2] == "| **OURS** | 3,000 | 2,900-3,100 | 1.00x |  |"
    assert rows[3] == "| HF (attention dropout 0) | 1,200 | 1,000-1,500 | 2.42x | 20.50 |"
    assert rows[4] == "| EOLE | not measured: no update within 240 s: a / b |  |  |  |"
    assert len({row.count("|") for row in rows}) == 1


def test_a_call_replaces_whole_groups_in_the_file(tmp_path):
    book = Book().with_call([record("ours", (1.0,)), record("hf", (2.0,))], CONTEXT)
    book = book.with_call([record("ours", (5.0,), kind="search")], {**CONTEXT, "commit": "def"})
    book = book.with_call([record("ours", (3.0,))], {**CONTEXT, "commit": "ghi"})
    book.save(tmp_path / "x.json")
    loaded = Book.load(tmp_path / "x.json")
    assert loaded == book
    assert [r.rounds for r in loaded.group("train", "t")] == [(3.0,)]
    assert "commit ghi" in table(loaded, "train", "t")
    assert "commit def" in table(loaded, "search", "t", "")
    assert table(loaded, "memory", "t") == "Not measured yet."


def test_the_page_has_the_tables_of_the_figures():
    page = PAGE.read_text("utf-8")
    assert fill(page, Book.load(FIGURES)) == page, "python scripts/bench.py page"
    places = "a\n<!-- table train t -->\n<!-- end -->\nb\n<!-- table search r1 greedy -->\nold\n<!-- end -->\n"
    output = fill(places, Book().with_call([record("ours", (1.0,))], CONTEXT))
    assert "Not measured yet." in output
    assert "**OURS**" in output
    assert "old" not in output
    assert output.startswith("a\n")
    assert fill(output, Book().with_call([record("ours", (1.0,))], CONTEXT)) == output
