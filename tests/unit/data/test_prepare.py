"""Preparation: done once, from checked text, and reproducible."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from seq2attn.data.corpus import Corpus
from seq2attn.data.data_config import DataConfig
from seq2attn.data.filter import EncodedPair, FilterReport, FiltersConfig, PairFilter
from seq2attn.data.fingerprint import fingerprint
from seq2attn.data.inspection import DataReport
from seq2attn.data.prepare import prepare
from seq2attn.data.prepared_data import load_prepared
from seq2attn.data.readers import JSONLinesConfig
from seq2attn.data.training_set import CHUNK, TrainingSet
from seq2attn.errors import DataError, RunError
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizerConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from seq2attn.tokenizers.vocabulary import UNK
from seq2attn.tokenizers.words import CharacterTokenizerConfig, WordTokenizerConfig
from tests.support.corpora import write_corpus

SOURCE = [f"the {color} {thing} ." for color in ("red", "green", "blue") for thing in ("boat", "lantern", "river")]
PAIRS = [(line, line.upper()) for line in SOURCE]
TRAIN = [*PAIRS, ("alone", ""), PAIRS[0]]
JOINT = TokenizersConfig(joint=BPETokenizerConfig(vocab_size=300))
WORDS = TokenizersConfig(joint=WordTokenizerConfig())
SEPARATE = TokenizersConfig(source=WordTokenizerConfig(), target=CharacterTokenizerConfig())
ORDERS = ("right_to_left", "reverse_source")
STOCHASTIC = TokenizersConfig(source=BPETokenizerConfig(vocab_size=300, dropout=0.5), target=WordTokenizerConfig())


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    dev = [("a red river .", "A RED RIVER ."), ("", "nothing")]
    return DataConfig(
        train=write_corpus(tmp_path, "train", TRAIN),
        dev=write_corpus(tmp_path, "dev", dev),
        test={"hard": write_corpus(tmp_path, "test", PAIRS[:2])},
    )


@pytest.mark.parametrize("text", [JOINT, SEPARATE, STOCHASTIC])
def test_train_and_dev_are_encoded(tmp_path: Path, data: DataConfig, text: TokenizersConfig) -> None:
    log: list[str] = []
    prepared = prepare(data, text, tmp_path / "run", log.append)
    assert log[0] == "train: 11 pairs, dev: 2 pairs, hard: 2 pairs"
    assert "train: kept 10 of 11 pairs; left out: 1 empty" in log
    decoded = [
        (prepared.source.decode(source.tolist()), prepared.target.decode(target.tolist()))
        for source, target in prepared.train.corpus
    ]
    assert decoded == [*PAIRS, PAIRS[0]]
    assert len(prepared.dev) == 2  # the dev set is not filtered
    assert prepared.dev_sources == ("a red river .", "")
    assert prepared.dev_references == (("A RED RIVER .", "nothing"),)
    assert prepared.train.parts[0].report == FilterReport(num_read=11, num_kept=10, empty=1)


def test_a_warning_for_a_source_that_is_also_the_target(tmp_path: Path, data: DataConfig) -> None:
    log: list[str] = []
    copied = data.dev.model_copy(update={"target": tmp_path / "dev.source"})
    prepare(data.model_copy(update={"dev": copied}), WORDS, tmp_path / "run", log.append)
    assert log[0] == f"warning: {tmp_path / 'dev.source'}: source and target are the same"


def test_the_run_with_the_tokenizers_is_gone(tmp_path: Path, data: DataConfig) -> None:
    prepare(data, SEPARATE, tmp_path / "first", print)
    text = TokenizersConfig.model_validate({"run_dir": tmp_path / "first"})
    prepare(data, text, tmp_path / "run", print)
    new = write_corpus(tmp_path, "new", [(source, f"{target} ß") for source, target in TRAIN])
    prepare(data.model_copy(update={"train": (new,)}), SEPARATE, tmp_path / "first", print)
    assert prepare(data, text, tmp_path / "run", print).target.encode("ß") != [UNK]  # only a target has changed
    (tmp_path / "first").rename(tmp_path / "moved")
    with pytest.raises(DataError, match=r"first: there is no such run; `tokenizer\.run_dir` needs it"):
        prepare(data, text, tmp_path / "run", print)
    prepare(data, text, tmp_path / "run", print, keep_tokenizers=True)


def test_further_references_of_the_dev_set(tmp_path: Path, data: DataConfig) -> None:
    def references(*contents: str) -> tuple[tuple[str, ...], ...]:
        paths = tuple(tmp_path / f"further-{number}" for number in range(len(contents)))
        for path, text in zip(paths, contents, strict=True):
            path.write_text(text, encoding="utf-8")
        dev = data.dev.model_copy(update={"references": paths})
        return prepare(data.model_copy(update={"dev": dev}), WORDS, tmp_path / "run", str).dev_references

    first = ("A RED RIVER .", "nothing")
    assert references("One .\n\n", "A\tb\nc\n") == (first, ("One .", ""), ("A\tb", "c"))
    assert references("Other .\n\n") == (first, ("Other .", ""))  # prepared again, because the text has changed
    with pytest.raises(DataError, match=r"dev\.target has 2 lines and .*further-0 has 1 line: each line"):
        references("One .\n")
    test = data.test["hard"].model_copy(update={"references": (tmp_path / "further-0",)})
    with pytest.raises(DataError, match=r"test\.target has 2 lines and .*further-0 has 1 line"):
        prepare(data.model_copy(update={"test": {"hard": test}}), WORDS, tmp_path / "other", str)


def test_joint_tokenizers_are_equal(tmp_path: Path, data: DataConfig) -> None:
    log: list[str] = []
    prepare(data, TokenizersConfig(joint=BPETokenizerConfig()), tmp_path / "run", log.append)
    source, target = (
        {path.name: path.read_bytes() for path in (tmp_path / "run" / side).iterdir()} for side in ("source", "target")
    )
    assert source == target and len(source) == 3
    assert log[1] == "source and target: training the bpe tokenizer"
    assert log[2].startswith("source and target: bpe, ")
    assert log[2].endswith("(fewer than `vocab_size: 8000`: the text has no more)")


@pytest.mark.parametrize(("minimum", "which"), [(1, ""), (2, " that occur `min_frequency: 2` times")])
def test_a_small_vocabulary_has_its_reason(tmp_path: Path, data: DataConfig, minimum: int, which: str) -> None:
    log, words = list[str](), WordTokenizerConfig(vocab_size=99, min_frequency=minimum)
    prepare(data, TokenizersConfig(joint=words), tmp_path / "run", log.append)
    assert log[2].endswith(f"(fewer than `vocab_size: 99`: the text has no more{which})")


def test_the_text_of_an_interrupted_preparation_counts_once(tmp_path: Path, data: DataConfig) -> None:
    other = data.model_copy(update={"train": (write_corpus(tmp_path, "other", PAIRS[:3]),)})

    def interrupt(line: str) -> None:
        if line.startswith("statistics"):  # which are saved then
            raise KeyboardInterrupt

    def characters(*logs: Callable[[str], None]) -> Mapping[str, int]:
        run = tmp_path / f"{len(logs)}"
        prepare(data, WORDS, run, print)
        for log in logs:
            with suppress(KeyboardInterrupt):
                prepare(other, WORDS, run, log, keep_tokenizers=True)
        report = DataReport.load(run)
        assert report is not None
        return report.train.source.characters

    assert characters(interrupt, print) == characters(print)


def test_a_second_call_does_nothing(tmp_path: Path, data: DataConfig) -> None:
    run, log = tmp_path / "run", list[str]()
    first = prepare(data, WORDS, run, log.append)
    times = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    log.clear()
    again = prepare(data, WORDS, run, log.append)
    assert log[0] == f"{run}: already prepared from this text"
    assert not any(line.startswith("train: kept") for line in log)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == times
    assert again.train.corpus.hash == first.train.corpus.hash and again.train.parts == first.train.parts
    assert load_prepared(run).dev.hash == first.dev.hash


def test_changes_are_prepared_again(tmp_path: Path, data: DataConfig) -> None:
    run, log = tmp_path / "run", list[str]()

    def is_prepared_again(data: DataConfig, text: TokenizersConfig) -> bool:
        log.clear()
        prepare(data, text, run, log.append)
        return "already" not in log[0]

    assert is_prepared_again(data, SEPARATE)
    strict = data.model_copy(update={"filters": FiltersConfig(drop_duplicates=True)})
    assert is_prepared_again(strict, SEPARATE)
    assert "warning: train: kept 9 of 11 pairs; left out: 1 empty, 1 duplicate" in log
    assert is_prepared_again(strict, JOINT)
    assert not is_prepared_again(strict, JOINT)
    assert all(is_prepared_again(strict, JOINT.model_copy(update={key: True})) for key in ORDERS)
    assert is_prepared_again(strict, JOINT)
    moved = strict.model_copy(update={"train": (write_corpus(tmp_path / "new", "train", TRAIN),)})
    assert not is_prepared_again(moved, JOINT)
    write_corpus(tmp_path / "new", "train", [*TRAIN[:-1], PAIRS[1]])
    assert is_prepared_again(moved, JOINT)


def test_options_of_given_tokenizers_count_and_their_paths_do_not() -> None:
    def of(path: str = "a.model", **options: object) -> str:
        config = {"kind": "sentencepiece", "path": path, "digest": "0", **options}
        joint = SentencePieceTokenizerConfig.model_validate(config)
        return fingerprint((), FiltersConfig(), TokenizersConfig(joint=joint))

    assert of() == of("moved/b.model")
    assert len({of(), of(special_tokens=("de",)), of(special_tokens=("fr",)), of(tag="de"), of(digest="1")}) == 5


def test_the_tokenizer_of_each_side_counts() -> None:
    kinds = WordTokenizerConfig(), CharacterTokenizerConfig()
    texts = [TokenizersConfig(source=source, target=target) for source in kinds for target in kinds]
    texts += [TokenizersConfig(joint=one) for one in kinds]
    assert len({fingerprint((), FiltersConfig(), text) for text in texts}) == len(texts)


def test_tokenizers_can_be_kept(tmp_path: Path, data: DataConfig) -> None:
    first = prepare(data, WORDS, tmp_path / "run", print)
    other = data.model_copy(update={"train": (write_corpus(tmp_path, "other", [("brand new text", "ANOTHER ONE")]),)})
    second = prepare(other, WORDS, tmp_path / "run", print, keep_tokenizers=True)
    assert second.source.vocabulary == first.source.vocabulary and len(second.train.corpus) == 1
    with pytest.raises(RunError, match=r"source/tokenizer.json: cannot be read"):
        prepare(data, WORDS, tmp_path / "empty", print, keep_tokenizers=True)
    for _ in range(2):  # a training from the beginning has tokenizers of its text
        third = prepare(other, WORDS, tmp_path / "run", print)
    assert third.source.vocabulary != first.source.vocabulary


@pytest.mark.parametrize("text", [STOCHASTIC, TokenizersConfig(source=STOCHASTIC.target, target=STOCHASTIC.source)])
def test_segmentation_of_epochs_depends_on_seed_and_epoch(
    tmp_path: Path, data: DataConfig, text: TokenizersConfig
) -> None:
    prepared = prepare(data, text, tmp_path / "run", print)
    train = prepared.train
    hashes = {at: train.epoch_corpus(*at).hash for at in ((1, 0), (1, 1), (2, 0))}
    assert len({*hashes.values(), train.corpus.hash}) == 4
    assert load_prepared(tmp_path / "run").train.epoch_corpus(1, 1).hash == hashes[1, 1]
    for source, target in train.epoch_corpus(3, 3):
        assert prepared.source.decode(source.tolist()).upper() == prepared.target.decode(target.tolist())
    train = prepare(data, JOINT, tmp_path / "run", print).train
    assert train.epoch_corpus(0, 0) is train.corpus is train.epoch_corpus(0, 1)


def test_line_breaks_in_json_stay_in_a_pair(tmp_path: Path, data: DataConfig) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"source": "a\nb", "target": "c\u2028\rd"}) + "\n" for _ in range(3)))
    odd = data.model_copy(update={"train": (JSONLinesConfig(path=path),)})
    prepared = prepare(odd, STOCHASTIC, tmp_path / "run", print)
    assert [prepared.source.decode(ids.tolist()) for ids, _ in prepared.train.epoch_corpus(0, 0)] == ["a b"] * 3


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_all_text_is_checked_before_training_of_tokenizers(tmp_path: Path, data: DataConfig, part: str) -> None:
    (tmp_path / f"{part}.target").write_bytes(b"fine\n\xff\n")
    with pytest.raises(DataError, match=rf"{part}\.target:2: byte 1 of the line \(0xff\) is not UTF-8"):
        prepare(data, JOINT, tmp_path / "run", print)
    assert not (tmp_path / "run").exists()


def test_filters(tmp_path: Path, data: DataConfig) -> None:
    strict = data.model_copy(update={"filters": FiltersConfig(max_length=1)})
    with pytest.raises(DataError) as error:
        prepare(strict, JOINT, tmp_path / "run", print)
    assert str(error.value) == (
        f"{tmp_path / 'train.source'}: no pair is left to train on: "
        "kept 0 of 11 pairs; left out: 1 empty, 10 too long; see `data.filters`"
    )
    train = write_corpus(tmp_path, "long", [("one two three four", "ONE"), *PAIRS])
    balanced = data.model_copy(update={"train": (train,), "filters": FiltersConfig(max_length=4, max_length_ratio=3.5)})
    prepared = prepare(balanced, WORDS, tmp_path / "run", print)
    assert prepared.train.parts[0].report == FilterReport(10, 9, unbalanced=1)


@pytest.mark.parametrize(
    ("lengths", "reason"), [((0, 9), "empty"), ((1, 9), "too_long"), ((2, 5), "unbalanced"), ((2, 4), "num_kept")]
)
@pytest.mark.parametrize("order", [1, -1])
def test_a_pair_is_counted_once(lengths: tuple[int, int], reason: str, order: int) -> None:
    source, target = lengths[::order]
    pair = EncodedPair(("a", "b"), ([7] * source, [7] * target))
    pair_filter = PairFilter(FiltersConfig(max_length=5, max_length_ratio=2, drop_duplicates=True))
    [*pair_filter.filter([pair, pair])]
    counts = {"num_kept": 0, reason: 2} if reason != "num_kept" else {"num_kept": 1, "duplicate": 1}
    assert pair_filter.report == FilterReport(num_read=2, **counts)


def test_pairs_with_another_line_break_are_no_duplicates() -> None:
    pairs = [EncodedPair(text, ([4], [5])) for text in (("a\nb", "c"), ("a", "b\nc"), ("a\nb", "c"))]
    assert [*PairFilter(FiltersConfig(drop_duplicates=True)).filter(pairs)] == pairs[:2]


def test_missing_files_are_run_errors(tmp_path: Path, data: DataConfig) -> None:
    run = tmp_path / "run"
    prepare(data, WORDS, run, print)
    (run / "data/dev.jsonl").unlink()
    with pytest.raises(RunError, match=r"dev.jsonl: is missing; remove the folder .*data and prepare"):
        prepare(data, WORDS, run, print)
    with pytest.raises(RunError, match=r"prepared.json: cannot be read .*; prepare the data first"):
        load_prepared(tmp_path / "nowhere")


def test_random_segmentations_differ_from_chunk_to_chunk(tmp_path: Path) -> None:
    text, word = tmp_path / "train.jsonl", "lantern"
    text.write_text(f'["{word}", "x"]\n' * (CHUNK + 20), encoding="utf-8")
    stochastic = BPETokenizerConfig(vocab_size=300, dropout=0.5).train([*SOURCE, "x"])
    train = TrainingSet(
        TokenizerPair(stochastic, WordTokenizerConfig().train(["x"])), Corpus.from_pairs([], 300), text, ()
    )
    epoch = train.epoch_corpus(1, 0)
    first, second = ([epoch[start + row][0].tolist() for row in range(20)] for start in (0, CHUNK))
    assert first != second
