"""Characters that the training text (nearly) lacks are reported as unknown; ordinary text of its language is not."""

import json
import unicodedata
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

from seq2attn import load
from seq2attn.data.data_config import DataConfig
from seq2attn.data.inspection import (
    REPORT_FILE,
    CorpusReport,
    DataReport,
    SideStatistics,
    describe_unknown,
    inspect_pairs,
)
from seq2attn.data.prepare import prepare
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.input_checks import InputChecker
from seq2attn.inference.source_line import SourceLine
from seq2attn.search.search_config import LengthsConfig
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizerConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from tests.support.corpora import PHRASES, write_corpus
from tests.support.untrained_runs import untrained_run

TRAIN = PHRASES[:800]
FOREIGN = ["الطفل يقرأ كتابا.", "私は電車でケルンに行きます。", "Мы едем в Гамбург.", "Πάμε στο Αμβούργο."]
RARE = ["Łukasz schläft.", "π ist eine Zahl.", "Hallo 😀", "Das ist Straße 5.", "Ÿ ist ein Buchstabe."]
BPE = BPETokenizerConfig(vocab_size=500).train(source for source, _ in TRAIN)
# Its vocabulary has the foreign letters, as a joint one has those of the other language: there are no bytes, either.
JOINT = BPETokenizerConfig(vocab_size=700).train([*(source for source, _ in TRAIN), *FOREIGN * 50])
TOKENIZERS: dict[str, Tokenizer] = {
    "bpe": BPE,
    "joint": JOINT,
    "tagged": JOINT.with_tags(("<news>",)),
    "reversed": JOINT.with_direction(right_to_left=True),
    "lower-case": BPETokenizerConfig(vocab_size=500, lowercase=True).train(source for source, _ in TRAIN),
}


def input_warnings(tokenizer: Tokenizer, lines: list[str], training: CorpusReport | None) -> list[str]:
    checker = InputChecker(training.source.known_characters if training else frozenset())
    encoded = [SourceLine.encode(tokenizer, line, LengthsConfig(), SourceLimit(999, "")) for line in lines]
    checker.add_lines(encoded, tokenizer)
    return [warning for warning in checker.warnings() if "does not know" in warning]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_foreign_scripts_are_unknown_and_own_text_is_not(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    tag = "<news> " if name == "tagged" else ""
    training = inspect_pairs([(tag + source, target) for source, target in TRAIN], tokenizer, BPE)
    assert set(training.source.characters) == {*tokenizer.normalize("".join(source for source, _ in TRAIN))}
    for line in FOREIGN:
        (warning,) = input_warnings(tokenizer, ["Das Haus ist alt.", tag + line], training)
        letters = Counter(tokenizer.normalize(line + "Das Haus ist alt."))
        count = sum(n for one, n in letters.items() if one not in training.source.characters)
        assert f"{count} of {letters.total()} (" in warning and warning.endswith(", in line 2")
    for source, _ in PHRASES[800:]:
        assert input_warnings(tokenizer, [tag + source, unicodedata.normalize("NFD", source)], training) == []


@pytest.mark.parametrize("line", RARE)
def test_a_rare_letter_is_no_reason_for_a_warning(line: str) -> None:
    training = inspect_pairs(TRAIN, BPE, BPE)
    assert input_warnings(BPE, [line], training) == []
    assert input_warnings(BPE, [line] * 3 + [source for source, _ in PHRASES[:50]], training) == []


def test_by_the_vocabulary_where_the_training_text_is_not_known(tmp_path: Path) -> None:
    training = inspect_pairs(TRAIN, BPE, BPE).with_earlier(tmp_path)
    for report in (None, training):
        assert not training.source.characters
        assert len(input_warnings(BPE, FOREIGN, report)) == 1
        assert input_warnings(JOINT, FOREIGN, report) == input_warnings(BPE, RARE[:1], report) == []


def test_the_normalization_of_a_model_is_no_unknown_text(tmp_path: Path) -> None:
    """An import of a model that SentencePiece trained on folded case and half-width punctuation, with bytes."""
    options = {"byte_fallback": True, "normalization_rule_name": "nmt_nfkc_cf", "vocab_size": 600, "minloglevel": 2}
    with (tmp_path / "source.spm").open("wb") as file:
        lines = (source for source, _ in TRAIN)
        SentencePieceTrainer.train(sentence_iterator=lines, model_writer=file, **options)
    config = {"kind": "sentencepiece", "path": tmp_path / "source.spm"}
    tokenizer = SentencePieceTokenizerConfig.model_validate(config).train([])
    lines = [source.upper().replace(".", "．") for source, _ in PHRASES[800:820]]
    assert input_warnings(tokenizer, lines, None) == []
    assert len(input_warnings(tokenizer, [*lines, *FOREIGN], None)) == 1


def test_sets_are_compared_with_the_training_text() -> None:
    training = inspect_pairs(TRAIN, JOINT, JOINT)
    pairs = [(FOREIGN[2], "We go to Hamburg."), *PHRASES[800:820]]
    (warning,) = inspect_pairs(pairs, JOINT, JOINT).warnings("dev", training)
    assert warning.startswith("dev: the source has characters that are missing or rare in the training text: ")
    assert [*inspect_pairs(PHRASES[800:], JOINT, JOINT).warnings("dev", training)] == []


def known_characters(counts: dict[str, int]) -> frozenset[str]:
    return SideStatistics(sum(counts.values()), 0, {}, counts).known_characters


@given(
    counts=st.dictionaries(st.characters(categories=["Lu", "Ll", "Lo", "Nd", "Po", "Mn"]), st.integers(1, 10**6)),
    factor=st.integers(2, 9),
)
def test_known_characters(counts: dict[str, int], factor: int) -> None:
    known = known_characters(counts)
    assert known <= counts.keys() and known == known_characters({one: factor * n for one, n in counts.items()})
    others = {one for one in counts if not one.isalpha()}
    assert others <= known or sum(counts[one] for one in others) < 1e-3 * sum(counts.values())
    assert describe_unknown(dict.fromkeys(known, 1), known) is None


def test_invisible_characters_are_named() -> None:
    assert describe_unknown(Counter("\u200b" * 3 + "яяяя" + "a"), {"a"}) == "87.5% of the characters, 7 of 8 (я U+200B)"


def test_letters_of_a_script_that_the_text_hardly_has_are_unknown() -> None:
    text = Counter("Das Haus ist alt, und die Katze schläft. " * 3000) + Counter("Яна, 我们 5 ß %")
    known = known_characters(text)
    assert {*text} - known == {*"Яна我们"}  # but a rare letter of its own script, a digit or a mark is known
    assert {*"Яна"} <= known_characters(text + Counter("Яна" * 60))
    assert {"µ"} <= known_characters(text + Counter("µ" * 20))  # whose name is of no script


def test_text_of_earlier_trainings_is_known(tmp_path: Path) -> None:
    """Of the run that the tokenizers come from, and of the same run before its text was changed."""
    first = write_corpus(tmp_path, "first", [*TRAIN[:100], *[(FOREIGN[2], "We go.")] * 100])
    second = write_corpus(tmp_path, "second", TRAIN[100:200])

    def prepared(name: str, train: Any, tokenizer: dict[str, Any], keep: bool = False) -> DataReport:
        data = DataConfig.model_validate({"train": train.model_dump(), "dev": second.model_dump()})
        text = TokenizersConfig.model_validate(tokenizer)
        prepare(data, text, tmp_path / name, print, keep_tokenizers=keep)
        report = DataReport.load(tmp_path / name)
        assert report is not None
        return report

    joint = {"joint": {"kind": "bpe", "vocab_size": 500}}
    own = prepared("own", first, joint)
    letters = {*FOREIGN[2]} - {" ", "."}
    assert letters <= own.train.source.known_characters
    tuned = prepared("tuned", second, {"run_dir": str(tmp_path / "own")})
    assert letters <= tuned.train.source.known_characters
    assert not letters & prepared("new", second, joint).train.source.known_characters
    kept = prepared("own", second, joint, keep=True)
    assert letters <= kept.train.source.known_characters
    content = json.loads((tmp_path / "tuned" / REPORT_FILE).read_text("utf-8"))
    for side in ("source", "target"):  # as of an import, or of an earlier version
        del content["train"][side]["characters"]
    (tmp_path / "tuned" / REPORT_FILE).write_text(json.dumps(content), "utf-8")
    again = prepared("again", second, {"run_dir": str(tmp_path / "tuned")})
    assert again.train.source.characters == {}


def test_translation_reports_them(tmp_path: Path) -> None:
    run = untrained_run(tmp_path, words=["a", "few", "Гамбург"]).folder  # its vocabulary has the word
    translator = load(run)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translator.translate("Гамбург Гамбург a")
    assert not [one for one in caught if "know" in str(one.message)]
    source = translator.source
    train = inspect_pairs([("a few", "a few")] * 9, source, source)
    DataReport(train, train, {}).save(run)
    with pytest.warns(UserWarning, match="the model does not know 82.4% of the characters, 14 of 17"):
        load(run).translate("Гамбург Гамбург a")
