"""Several training corpora: an epoch has each pair as often as asked, and each corpus is kept apart in what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from seq2attn.config.load import dump, load
from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.collate import make_batch
from seq2attn.data.config import DataConfig
from seq2attn.data.inspection.report import REPORT_TEXT, DataReport
from seq2attn.data.prepare import PREPARED, PreparedData, load_prepared, prepare
from seq2attn.errors import ConfigError, DataError, RunError
from seq2attn.experiment import ExperimentConfig
from seq2attn.tokenizers.config import TokenizersConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.small_bert import make_bert

WORDS = TokenizersConfig(source=WordTokenizerConfig(), target=WordTokenizerConfig())
DRAWN = TokenizersConfig(joint=BPETokenizerConfig(vocab_size=300, dropout=0.5))
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def written(folder: Path, name: str, pairs: list[tuple[str, str]], links: list[str] | None = None) -> dict[str, Any]:
    """A corpus of some pairs, as a config has it."""
    sides = {"source": [a for a, _ in pairs], "target": [b for _, b in pairs], "alignment": links}
    config: dict[str, Any] = {"kind": "plain"}
    for side, lines in sides.items():
        if lines is not None:
            config[side] = folder / f"{name}.{side}"
            config[side].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return config


def pairs_of(letter: str, count: int) -> list[tuple[str, str]]:
    """Pairs of different lengths, each unlike all others."""
    return [(f"{letter}{number} " + "x " * (number % 5), f"{letter}{number} y") for number in range(count)]


def data_of(folder: Path, *train: dict[str, Any], **options: Any) -> DataConfig:
    dev = options.pop("dev", None) or written(folder, "dev", pairs_of("a", 3))
    return DataConfig.model_validate({"train": list(train), "dev": dev, **options})


def first_words(prepared: PreparedData, epoch: int) -> list[str]:
    """What the sources of an epoch begin with, batch by batch, of two processes."""
    train = prepared.train
    corpus, rows = train.epoch_corpus(1, epoch), train.rows(1, epoch)
    return [
        prepared.source.decode(corpus[rows[row]][0]).split()[0]
        for rank in (0, 1)
        for batch in plan_batches(corpus.lengths[rows], tokens=30, seed=1, epoch=epoch, rank=rank, world=2)
        for row in batch
    ]


@pytest.mark.parametrize("text", [WORDS, DRAWN])
def test_an_epoch_has_each_pair_as_often_as_asked(tmp_path: Path, text: TokenizersConfig) -> None:
    data = data_of(
        tmp_path,
        written(tmp_path, "a", pairs_of("a", 20)),
        {**written(tmp_path, "b", [*pairs_of("b", 7), ("", "empty"), *pairs_of("c", 4)]), "repeat": 3},
        {**written(tmp_path, "d", pairs_of("d", 10)), "repeat": 2.5},
        {**written(tmp_path, "e", pairs_of("e", 30)), "repeat": 0.3},
    )
    prepared = prepare(data, text, tmp_path / "run", lambda line: None)
    drawn = []
    for epoch in (0, 1):
        words = first_words(prepared, epoch)
        assert words == first_words(load_prepared(tmp_path / "run"), epoch)
        assert all(words.count(f"a{number}") == 1 for number in range(20))
        assert all(words.count(word) == 3 for word in [f"b{n}" for n in range(7)] + [f"c{n}" for n in range(4)])
        assert sorted(words.count(f"d{number}") for number in range(10)) == [2] * 5 + [3] * 5
        assert sorted(words.count(f"e{number}") for number in range(30)) == [0] * 21 + [1] * 9
        assert len(words) == 20 + 33 + 25 + 9
        drawn.append(sorted(word for word in words if word[0] in "de"))
    assert drawn[0] != drawn[1]


def test_duplicates_are_found_across_corpora(tmp_path: Path) -> None:
    first, second = written(tmp_path, "a", pairs_of("a", 9)), written(tmp_path, "b", pairs_of("a", 12))
    filters = {"drop_duplicates": True}
    reports = [
        [part.report.num_kept for part in prepare(data, WORDS, tmp_path / name, str).train.parts]
        for name, data in {
            "same": data_of(tmp_path, first, second, filters=filters),
            "kept": data_of(tmp_path, first, second),
            "tagged": data_of(tmp_path, first, {**second, "tag": "other"}, filters=filters),
        }.items()
    ]
    assert reports == [[9, 3], [9, 12], [9, 12]]


def test_they_are_kept_apart_in_log_and_report(tmp_path: Path) -> None:
    log: list[str] = []
    data = data_of(
        tmp_path,
        {**written(tmp_path, "a", [*pairs_of("a", 20), ("left out", "")]), "tag": "news"},
        {**written(tmp_path, "b", pairs_of("b", 5)), "repeat": 4},
        dev={**written(tmp_path, "dev", pairs_of("b", 3)), "tag": "news"},
    )
    prepared = prepare(data, WORDS, tmp_path / "run", log.append)
    assert log[0] == "train 1: 21 pairs, train 2: 5 pairs, dev: 3 pairs"
    assert [line.split(":")[0] for line in log if line.endswith("and the tags <news>")] == ["source"]
    shares = [
        "train 1 (a.source, a.target): kept 20 of 21 pairs; left out: 1 empty; each 1 times an epoch,"
        " 50.0% of its pairs; tag <news>",
        "train 2 (b.source, b.target): kept 5 of 5 pairs; each 4 times an epoch, 50.0% of its pairs",
    ]
    assert [line for line in log if " times an epoch" in line] == shares
    report = DataReport.load(tmp_path / "run")
    assert report is not None and report.dev.num_in_train == 3  # whatever its tag
    assert [one.part.report.num_read for one in report.corpora] == [21, 5] and report.train.num_pairs == 26
    shown = (tmp_path / "run" / REPORT_TEXT).read_text(encoding="utf-8")
    assert all(line in shown for line in shares)
    assert [part.report.num_kept for part in prepared.train.parts] == [20, 5]
    assert prepared.dev_sources[0].startswith("<news> b0")


@pytest.mark.parametrize("text", [WORDS, DRAWN])
def test_guided_by_the_corpora_that_have_links(tmp_path: Path, text: TokenizersConfig) -> None:
    linked = written(tmp_path, "a", [("one two three", "drei zwei eins")] * 2, ["0-2 1-1 2-0", ""])
    unlinked = written(tmp_path, "b", [("four five", "vier fünf")])
    train = prepare(data_of(tmp_path, unlinked, {**linked, "tag": "2de"}), text, tmp_path / "run", str).train
    corpus = train.epoch_corpus(1, 0)
    guide = make_batch(corpus, range(3)).alignment_targets
    assert guide is not None and not guide[0].any() and not guide[2].any()
    source, target = (
        train.source.convert_ids_to_tokens(corpus[1][0]),
        train.target.convert_ids_to_tokens(corpus[1][1]),
    )
    words = [
        np.array(side.word_ids(ids.tolist())) for side, ids in zip((train.source, train.target), corpus[1], strict=True)
    ]
    assert source[0] == "<2de>" and words[0].max() == 3
    for row, word in enumerate(words[1][: len(target)]):
        assert set(words[0][guide[1, row, : len(source)].numpy() > 0]) == {3 - word}  # behind the tag


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": ""}, r"empty\.source: no pair is left to train on: kept 0 of 2 pairs"),
        (
            {"repeat": 0.1},
            r"empty\.source: kept 2 of 2 pairs, and `repeat: 0.1` of these is less than a pair",
        ),
    ],
)
def test_a_corpus_without_a_pair_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    source = change.pop("source", "text")
    other = {**written(tmp_path, "empty", [(source, "x"), (source, "y")]), **change}
    with pytest.raises(DataError, match=message):
        prepare(data_of(tmp_path, written(tmp_path, "a", pairs_of("a", 9)), other), WORDS, tmp_path / "run", str)


def experiment(folder: Path, data: dict[str, Any], **changes: Any) -> Path:
    content = {
        "run_dir": str(folder / "run"),
        "data": {"dev": {"kind": "tsv", "path": "dev.tsv"}, **data},
        "tokenizer": {"source": {"kind": "words"}, "target": {"kind": "words"}},
        "model": {"encoder": {"kind": "gru"}, "decoder": {"kind": "luong"}},
        **changes,
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


A, B = {"kind": "tsv", "path": "a.tsv"}, {"kind": "tsv", "path": "b.tsv", "tag": "2en"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": [A, {**B, "repet": 2}]}, "unknown key `data.train.1.repet`; did you mean `repeat`?"),
        ({"train": {**A, "repet": 2}}, "unknown key `data.train.repet`; did you mean `repeat`?"),
        ({"train": [A, {**B, "repeat": 0}]}, "`data.train.1.repeat` should be greater than 0, not 0"),
        ({"train": {**A, "repeat": -1}}, "`data.train.repeat` should be greater than 0, not -1"),
        ({"train": [A, {**B, "kind": "tvs"}]}, "`data.train.1` has no kind `tvs`; did you mean `tsv`?"),
        ({"train": {**A, "kind": "tvs"}}, "`data.train` has no kind `tvs`; did you mean `tsv`?"),
        ({"train": [A, {"kind": "tsv"}]}, "`data.train.1.path` is missing"),
        ({"train": {"kind": "tsv"}}, "`data.train.path` is missing"),
        ({"train": []}, "`data.train`: tuple should have at least 1 item"),
        ({"train": [A, {**B, "tag": "<2en>"}]}, "`data.train.1.tag`: string should match pattern"),
        ({"train": {**A, "tag": "unk"}}, "`data.train.tag`: `<unk>` is a special token; use another name"),
        (
            {"train": [A, B], "dev": {**A, "tag": "2de"}},
            "`data.dev.tag`: no corpus of `data.train` has the tag `2de`; known: `2en`",
        ),
        (
            {"train": A, "test": {"t": {**A, "tag": "x"}}},
            "`data.test.t.tag`: no corpus of `data.train` has the tag",
        ),
        ({"train": A, "dev": {**A, "repeat": 2}}, "`data.dev.repeat`: is for `train`"),
        (
            {"train": {"kind": "plain", "source": "a", "target": "b", "references": ["c"]}},
            "`data.train.references`: are for `dev` and `test`",
        ),
    ],
)
def test_mistakes_keep_their_places(tmp_path: Path, data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(experiment(tmp_path, data), ExperimentConfig)
    assert message in str(error.value)
    assert f"{tmp_path / 'config.yaml'}:" in str(error.value)


def test_the_config_of_the_docs_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/data.md").read_text(encoding="utf-8")
    data = yaml.safe_load(page.split("```yaml\n")[1].split("```")[0])["data"]
    corpora = load(experiment(tmp_path, data), ExperimentConfig).data.train
    assert [(corpus.kind, corpus.tag, corpus.repeat) for corpus in corpora] == [
        ("plain", "news", 3),
        ("tsv", "subtitles", 0.25),
        ("jsonl", None, 1),
    ]


def test_tags_need_vectors_of_their_own(tmp_path: Path) -> None:
    make_bert(tmp_path / "bert", NUMBERS)
    text = {"source": {"kind": "wordpiece", "path": "bert"}, "target": {"kind": "words"}}
    with pytest.raises(
        ConfigError, match=r"`data\.train`: has a `tag`, for which the vocabulary of `wordpiece` has no"
    ):
        load(experiment(tmp_path, {"train": [A, B]}, tokenizer=text), ExperimentConfig)


def test_corpora_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    prepare(data_of(tmp_path, written(tmp_path, "a", pairs_of("a", 9))), WORDS, tmp_path / "run", str)
    path = tmp_path / "run" / PREPARED
    path.write_text(path.read_text(encoding="utf-8").replace('"num_kept": 9', '"num_kept": 8'), encoding="utf-8")
    with pytest.raises(RunError, match="its corpora do not add up to the pairs of"):
        load_prepared(tmp_path / "run")


@pytest.mark.parametrize("train", [A, [A], [A, {**B, "repeat": 2.5}]])
def test_a_config_that_is_shown_reads_the_same(tmp_path: Path, train: Any) -> None:
    first = load(experiment(tmp_path, {"train": train}), ExperimentConfig)
    assert len(first.data.train) == (len(train) if isinstance(train, list) else 1)
    (tmp_path / "again.yaml").write_text(dump(first), encoding="utf-8")
    again = load(tmp_path / "again.yaml", ExperimentConfig)
    assert again == first
    if len(first.data.train) == 1:  # one corpus is a mapping, of which a key can be set
        other = load(tmp_path / "again.yaml", ExperimentConfig, ["data.train.path=/other.tsv"])
        assert other.data.train[0].files == (Path("/other.tsv"),)
