"""Preparing: done once, from checked text, and repeatable to the last draw."""

import json
from pathlib import Path

import pytest

from seq2attn.data.config import DataConfig
from seq2attn.data.corpus import Corpus
from seq2attn.data.filter import FilterReport, FiltersConfig
from seq2attn.data.prepare import load_prepared, prepare
from seq2attn.data.readers import JSONLinesConfig, PlainTextConfig
from seq2attn.data.training_set import CHUNK, TrainingSet
from seq2attn.errors import DataError, RunError
from seq2attn.tokenizers.characters import CharacterTokenizerConfig
from seq2attn.tokenizers.config import TokenizersConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.words import WordTokenizerConfig

SOURCE = [f"the {color} {thing} ." for color in ("red", "green", "blue") for thing in ("boat", "lantern", "river")]
TARGET = [line.upper() for line in SOURCE]
JOINT = TokenizersConfig(joint=BPETokenizerConfig(vocab_size=300))
EACH = TokenizersConfig(source=WordTokenizerConfig(), target=CharacterTokenizerConfig())
DRAWN = TokenizersConfig(source=BPETokenizerConfig(vocab_size=300, dropout=0.5), target=WordTokenizerConfig())


def aligned(folder: Path, name: str, source: list[str], target: list[str]) -> PlainTextConfig:
    paths = folder / f"{name}.src", folder / f"{name}.tgt"
    for path, lines in zip(paths, (source, target), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return PlainTextConfig(source=paths[0], target=paths[1])


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    train = aligned(tmp_path, "train", [*SOURCE, "alone", SOURCE[0]], [*TARGET, "", TARGET[0]])
    dev = aligned(tmp_path, "dev", ["a red river .", ""], ["A RED RIVER .", "nothing"])
    return DataConfig(train=train, dev=dev, test={"hard": aligned(tmp_path, "test", SOURCE[:2], TARGET[:2])})


@pytest.mark.parametrize("text", [JOINT, EACH, DRAWN])
def test_it_encodes_train_and_dev(tmp_path: Path, data: DataConfig, text: TokenizersConfig) -> None:
    log: list[str] = []
    prepared = prepare(data, text, tmp_path / "run", log.append)
    assert log[0] == "train: 11 pairs, dev: 2 pairs, hard: 2 pairs"
    assert "train: kept 10 of 11 pairs; left out: 1 empty" in log
    corpus = prepared.train.corpus
    assert [prepared.source.decode(source.tolist()) for source, _ in corpus] == [*SOURCE, SOURCE[0]]
    assert [prepared.target.decode(target.tolist()) for _, target in corpus] == [*TARGET, TARGET[0]]
    assert len(prepared.dev) == 2  # nothing is left out of what we measure on
    assert prepared.dev_sources == ("a red river .", "")
    assert prepared.dev_references == (("A RED RIVER .", "nothing"),)
    assert prepared.train.parts[0].report == FilterReport(num_read=11, num_kept=10, empty=1)


def test_further_references_of_the_dev_set_are_kept(tmp_path: Path, data: DataConfig) -> None:
    def prepared(*lines: str) -> tuple[tuple[str, ...], ...]:
        paths = tuple(tmp_path / f"further-{number}" for number in range(len(lines)))
        for path, text in zip(paths, lines, strict=True):
            path.write_text(text, encoding="utf-8")
        dev = data.dev.model_copy(update={"references": paths})
        return prepare(data.model_copy(update={"dev": dev}), JOINT, tmp_path / "run", str).dev_references

    first = ("A RED RIVER .", "nothing")
    assert prepared("One .\n\n", "A\tb\nc\n") == (first, ("One .", ""), ("A\tb", "c"))
    assert prepared("Other .\n\n") == (first, ("Other .", ""))  # prepared anew, as the text has changed
    with pytest.raises(DataError, match=r"dev\.tgt has 2 lines and .*further-0 has 1 line: line by line"):
        prepared("One .\n")
    test = data.test["hard"].model_copy(update={"references": (tmp_path / "further-0",)})
    with pytest.raises(DataError, match=r"test\.tgt has 2 lines and .*further-0 has 1 line"):
        prepare(data.model_copy(update={"test": {"hard": test}}), JOINT, tmp_path / "other", str)
    with pytest.raises(ValueError, match=r"train\.0\.references: are for `dev` and `test`"):
        DataConfig(train=test, dev=data.dev)


def test_joint_tokenisers_are_the_same_twice(tmp_path: Path, data: DataConfig) -> None:
    log: list[str] = []
    prepare(data, TokenizersConfig(joint=BPETokenizerConfig()), tmp_path / "run", log.append)
    contents = [
        {path.name: path.read_bytes() for path in (tmp_path / "run" / side).iterdir()} for side in ("source", "target")
    ]
    assert contents[0] == contents[1] and len(contents[0]) == 3
    assert log[1] == "source and target: training the bpe tokenizer"
    assert "source and target: bpe, " in log[2] and "(fewer than `vocab_size: 8000`: the text has no more)" in log[2]


def test_a_second_time_does_nothing(tmp_path: Path, data: DataConfig) -> None:
    run, log = tmp_path / "run", list[str]()
    first = prepare(data, JOINT, run, log.append)
    times = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    log.clear()
    again = prepare(data, JOINT, run, log.append)
    assert log[0] == f"{run}: already prepared from this text"
    assert not any(line.startswith("train: kept") for line in log)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == times
    assert again.train.corpus.hash == first.train.corpus.hash and again.train.parts == first.train.parts
    assert load_prepared(run).dev.hash == first.dev.hash


def test_what_changed_is_prepared_again(tmp_path: Path, data: DataConfig) -> None:
    run, log = tmp_path / "run", list[str]()
    prepare(data, EACH, run, log.append)

    def is_done_again(data: DataConfig, text: TokenizersConfig) -> bool:
        log.clear()
        prepare(data, text, run, log.append)
        return "already" not in log[0]

    stricter = data.model_copy(update={"filters": FiltersConfig(drop_duplicates=True)})
    assert is_done_again(stricter, EACH)
    assert "train: kept 9 of 11 pairs; left out: 1 empty, 1 duplicate" in log
    assert is_done_again(stricter, JOINT)
    assert not is_done_again(stricter, JOINT)
    moved = data.model_copy(
        update={
            "train": (aligned(tmp_path / "new", "train", [*SOURCE, "alone", SOURCE[0]], [*TARGET, "", TARGET[0]]),),
            "filters": stricter.filters,
        }
    )
    assert not is_done_again(moved, JOINT)
    aligned(tmp_path / "new", "train", [*SOURCE, "alone", SOURCE[1]], [*TARGET, "", TARGET[1]])
    assert is_done_again(moved, JOINT)


def test_tokenisers_can_be_kept(tmp_path: Path, data: DataConfig) -> None:
    first = prepare(data, JOINT, tmp_path / "run", print)
    other = data.model_copy(update={"train": (aligned(tmp_path, "other", ["brand new text"], ["ANOTHER ONE"]),)})
    kept = prepare(other, JOINT, tmp_path / "run", print, keep_tokenizers=True)
    assert kept.source.vocabulary == first.source.vocabulary and len(kept.train.corpus) == 1
    with pytest.raises(RunError, match=r"source/tokenizer.json: cannot be read"):
        prepare(data, JOINT, tmp_path / "empty", print, keep_tokenizers=True)


def test_epochs_are_cut_anew_by_seed_and_epoch(tmp_path: Path, data: DataConfig) -> None:
    prepared = prepare(data, DRAWN, tmp_path / "run", print)
    train = prepared.train
    hashes = {at: train.epoch_corpus(*at).hash for at in ((1, 0), (1, 1), (2, 0))}
    assert len({*hashes.values(), train.corpus.hash}) == 4
    assert load_prepared(tmp_path / "run").train.epoch_corpus(1, 1).hash == hashes[1, 1]
    for source, target in train.epoch_corpus(3, 3):
        assert prepared.source.decode(source.tolist()).upper() == prepared.target.decode(target.tolist())


def test_without_chance_an_epoch_is_the_corpus(tmp_path: Path, data: DataConfig) -> None:
    train = prepare(data, JOINT, tmp_path / "run", print).train
    assert train.epoch_corpus(0, 0) is train.corpus is train.epoch_corpus(0, 1)


def test_line_breaks_in_json_are_no_lines(tmp_path: Path, data: DataConfig) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"source": "a\nb", "target": "c\u2028\rd"}) + "\n" for _ in range(3)))
    odd = data.model_copy(update={"train": (JSONLinesConfig(path=path),)})
    prepared = prepare(odd, DRAWN, tmp_path / "run", print)
    assert [prepared.source.decode(ids.tolist()) for ids, _ in prepared.train.epoch_corpus(0, 0)] == ["a b"] * 3


@pytest.mark.parametrize("which", ["train", "dev", "test"])
def test_all_text_is_checked_before_anything_is_learnt(tmp_path: Path, data: DataConfig, which: str) -> None:
    (tmp_path / f"{which}.tgt").write_bytes(b"fine\n\xff\n")
    with pytest.raises(DataError, match=rf"{which}\.tgt:2: byte 1 of the line \(0xff\) is not UTF-8"):
        prepare(data, JOINT, tmp_path / "run", print)
    assert not (tmp_path / "run").exists()


def test_nothing_left(tmp_path: Path, data: DataConfig) -> None:
    strict = data.model_copy(update={"filters": FiltersConfig(max_length=1)})
    with pytest.raises(DataError) as error:
        prepare(strict, JOINT, tmp_path / "run", print)
    assert str(error.value) == (
        f"{tmp_path / 'train.src'}: no pair is left to train on: "
        "kept 0 of 11 pairs; left out: 1 empty, 10 too long; see `filters`"
    )


def test_unbalanced_pairs(tmp_path: Path, data: DataConfig) -> None:
    long = aligned(tmp_path, "long", ["one two three four", *SOURCE], ["ONE", *TARGET])
    balanced = data.model_copy(update={"train": (long,), "filters": FiltersConfig(max_length_ratio=3.5)})
    words = TokenizersConfig(joint=WordTokenizerConfig())
    assert prepare(balanced, words, tmp_path / "run", print).train.parts[0].report == FilterReport(10, 9, unbalanced=1)


def test_damage_is_a_run_error(tmp_path: Path, data: DataConfig) -> None:
    run = tmp_path / "run"
    prepare(data, JOINT, run, print)
    (run / "data/dev.jsonl").unlink()
    with pytest.raises(RunError, match=r"dev.jsonl: is missing; remove the folder .*data and prepare"):
        prepare(data, JOINT, run, print)
    with pytest.raises(RunError, match=r"prepared.json: cannot be read .*; prepare the data first"):
        load_prepared(tmp_path / "nowhere")


def test_draws_are_not_repeated_from_chunk_to_chunk(tmp_path: Path) -> None:
    text, word = tmp_path / "train.jsonl", "lantern"
    text.write_text(f'["{word}", "x"]\n' * (CHUNK + 20), encoding="utf-8")
    drawn = BPETokenizerConfig(vocab_size=300, dropout=0.5).train([*SOURCE, "x"])
    train = TrainingSet(drawn, WordTokenizerConfig().train(["x"]), Corpus.from_pairs([], 300), text, ())
    epoch = train.epoch_corpus(1, 0)
    first, second = ([epoch[start + row][0].tolist() for row in range(20)] for start in (0, CHUNK))
    assert first != second
