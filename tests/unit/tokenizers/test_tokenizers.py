"""Tokenizers: decoding restores the text, sampling is reproducible, folders are loaded, training can be stopped."""

import json
import math
import shutil
import signal
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from io import BytesIO
from pathlib import Path
from random import Random
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from sentencepiece import SentencePieceTrainer

from seq2attn.errors import DataError, RunError
from seq2attn.tokenizers.normalize import NormalizeConfig
from seq2attn.tokenizers.subword_regularization import BPEDropoutSampler, UnigramSampler
from seq2attn.tokenizers.subwords import BPETokenizerConfig, SubwordTokenizer, UnigramTokenizerConfig
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig, load_tokenizer
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.tokenizers import CONFIGS, STOCHASTIC, TEXT, TRAINED

BPE, WORD = {"kind": "bpe"}, {"kind": "words"}


def normalize(line: str) -> str:
    return NormalizeConfig().normalize(line)


@pytest.mark.parametrize("name", ["bpe", "unigram"])
@given(line=st.text() | st.sampled_from(TEXT))
@example("  The\tred and  ")
@example("a 😀 b")
@example("日本語 தமிழ் עברית")
@example("<s> </s> <unk> <pad> <0x41> ▁ ⁇ ￭")
@example("e\u0301 \x00 \ufeff \u2028 \x85 \t")
def test_subwords_restore_any_text(name: str, line: str) -> None:
    ids = TRAINED[name].encode(line)
    assert TRAINED[name].decode(ids) == normalize(line)
    assert min(ids, default=9) >= len(SPECIAL_TOKENS)


@given(line=st.text())
@example("don't — «a»b_c 3.14 ... ￭ x￭y ￭￭ a\u0301\u0301 हिन्दी")
def test_words_and_characters_restore_known_text(line: str) -> None:
    for name in ("words", "whitespace", "characters"):
        tokenizer = CONFIGS[name].train([line])
        ids = tokenizer.encode(line)
        if not any(special in line for special in SPECIAL_TOKENS):
            assert tokenizer.decode(ids) == normalize(line if name == "characters" else line.replace("￭", "■"))
            assert UNK not in ids


@given(line=st.text(), form=st.sampled_from(["none", "nfc", "nfkc"]), lowercase=st.booleans())
def test_normalized_text_has_single_spaces(line: str, form: str, lowercase: bool) -> None:
    config = NormalizeConfig.model_validate({"normalization": form, "lowercase": lowercase})
    text = config.normalize(line)
    assert text == " ".join(text.split())


def test_normal_forms() -> None:
    assert normalize("  Cafe\u0301 \u2028 ﬁ ") == "Café ﬁ"
    assert NormalizeConfig(normalization="none").normalize("e\u0301") == "e\u0301"
    assert NormalizeConfig(normalization="nfkc", lowercase=True).normalize("ﬁ Ａ ℡") == "fi a tel"


@pytest.mark.parametrize("name", CONFIGS)
def test_special_tokens_and_line_breaks_in_decoding(name: str) -> None:
    tokenizer = TRAINED[name]
    red = tokenizer.encode("red")
    assert tokenizer.decode([BOS, *red, EOS, PAD]) == "red"
    assert "<unk>" in tokenizer.decode([*red, UNK])
    if not isinstance(tokenizer, SubwordTokenizer):  # subwords can spell `<unk>`
        assert tokenizer.encode(tokenizer.decode([*red, UNK, *red])) == [*red, UNK, *red]
    assert tokenizer.convert_ids_to_tokens([PAD, BOS, EOS, UNK]) == list(SPECIAL_TOKENS)
    assert tokenizer.convert_ids_to_tokens(red) == [tokenizer.vocabulary.tokens[id] for id in red]
    breaks = [id for id in (tokenizer.vocabulary.id(f"<0x{byte:02X}>") for byte in (10, 13)) if id != UNK]
    assert tokenizer.decode([*red, *breaks, *red]).splitlines() in (["red red"], ["redred"])


def test_segmentation_into_words() -> None:
    words = WordTokenizerConfig().segment("Don't wait, (she) said. 3.14?! a_b")
    assert " ".join(words) == "Don ￭'￭ t wait ￭, (￭ she ￭) said ￭. 3 ￭.￭ 14 ￭? ￭! a_b"
    assert WordTokenizerConfig().segment("हिन्दी தமிழ்") == ["हिन्दी", "தமிழ்"]  # vowel signs stay in their words
    joined = ["ශ්\u200dරී", "می\u200cخواهم", "Fahr\u00adrad"]
    assert WordTokenizerConfig().segment(" ".join(joined)) == joined
    assert WordTokenizerConfig().segment("a\u200d b ❤\ufe0f!") == ["a", "￭\u200d", "b", "❤\ufe0f", "￭!"]
    tokenizer = WordTokenizerConfig().train(["a, (b)"])  # punctuation is known with other joiners
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("a ,b( a")) == ["a", "￭,", "b", "(￭", "a"]
    whitespace = TRAINED["whitespace"]
    assert whitespace.encode("<s> red </s> <pad>") == [UNK, *whitespace.encode("red"), UNK, UNK]


def test_each_mark_belongs_to_its_word() -> None:
    characters = map(chr, range(sys.maxunicode + 1))
    marks = "".join(character for character in characters if unicodedata.category(character).startswith("M"))
    assert len(WordTokenizerConfig().segment(f"a{marks}a")) == 1


@pytest.mark.parametrize("config", [BPETokenizerConfig(), UnigramTokenizerConfig()])
def test_a_small_text_gives_a_small_vocabulary(config: BPETokenizerConfig | UnigramTokenizerConfig) -> None:
    assert 260 < len(config.train(TEXT[:3]).vocabulary) < 400
    with pytest.raises(DataError, match="raise `vocab_size` to 267 or more"):
        config.model_copy(update={"vocab_size": 262}).train(["abcdef"])
    with pytest.raises(DataError, match="there is no text to train subwords on"):
        config.train(["", " "])


@pytest.mark.parametrize("name", CONFIGS)
def test_training_is_reproducible_and_sampling_without_chance_is_encoding(name: str) -> None:
    assert CONFIGS[name].train(TEXT).vocabulary == TRAINED[name].vocabulary
    assert not TRAINED[name].is_stochastic
    assert TRAINED[name].sample(TEXT[:9], seed=3) == [TRAINED[name].encode(line) for line in TEXT[:9]]


@pytest.mark.parametrize("name", CONFIGS)
def test_each_option_changes_the_vocabulary(name: str) -> None:
    subwords = {"lowercase": True}, {"vocab_size": 290}, {"character_coverage": 0.98}
    others = {"lowercase": True}, {"vocab_size": 12}, {"min_frequency": 299}
    for option in subwords if name in STOCHASTIC else others:
        assert CONFIGS[name].model_copy(update=option).train(TEXT).vocabulary != TRAINED[name].vocabulary, option


@pytest.mark.parametrize("name", STOCHASTIC)
def test_samples_are_a_function_of_lines_and_seed(name: str) -> None:
    tokenizer = STOCHASTIC[name]
    assert tokenizer.is_stochastic
    first = tokenizer.sample(TEXT, seed=1)
    tokenizer.sample(TEXT[:7], seed=2)
    assert tokenizer.sample(TEXT, seed=1) == first != tokenizer.sample(TEXT, seed=2)
    assert first != [tokenizer.encode(line) for line in TEXT]
    assert [tokenizer.decode(ids) for ids in first] == [tokenizer.config.normalize(line) for line in TEXT]


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("bpe", BPETokenizerConfig(vocab_size=400, dropout=1e-12)),
        ("unigram", UnigramTokenizerConfig(vocab_size=320, alpha=1e6)),
    ],
)
def test_the_most_probable_sample_is_sentencepieces(name: str, config: BPETokenizerConfig) -> None:
    trained = TRAINED[name]
    assert isinstance(trained, SubwordTokenizer)
    lines = [*TEXT[::40], "a 😀日 b", "<s> <0x41> ⁇", "xyzzy Zq", ""]
    samples = SubwordTokenizer(config, trained.model).sample(lines, seed=0)
    assert samples == [trained.encode(line) for line in lines]


def shares(sampler: BPEDropoutSampler | UnigramSampler) -> dict[str, float]:
    random, draws = Random(0), 20_000
    counts = Counter(" ".join(sampler.segment("abc", random)) for _ in range(draws))
    return {segmentation: count / draws for segmentation, count in counts.items()}


def test_a_killed_training_of_subwords_is_no_fault_of_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    with pytest.raises(
        DataError, match="ended by signal 9, often because memory ran out; train them in a run with less text"
    ):
        BPETokenizerConfig(vocab_size=300).train(["a b"])


def test_long_words_are_not_cached() -> None:
    """In scripts without spaces they are sentences, which do not occur again."""
    scores = dict.fromkeys("abcd", -1.0) | {"ab": -1.5, "cd": -1.5}
    one, other = UnigramSampler(scores, 0.5), UnigramSampler(scores, 0.5)
    for length in (20, 21):
        word = ("abcd" * 6)[:length]
        assert [one.segment(word, Random(n)) for n in range(9)] == [other.segment(word, Random(n)) for n in range(9)]
        assert one._cached_lattice.cache_info().currsize == 1


def test_probabilities_of_samples() -> None:
    scores = {"a": -1.0, "b": -2.0, "ab": -2.5, "c": -1.5, "bc": -3.0, "abc": -5.0}
    paths = {"a b c": -4.5, "ab c": -4.0, "a bc": -4.0, "abc": -5.0}
    weights = {path: math.exp(0.5 * score) for path, score in paths.items()}
    expected = {path: weight / sum(weights.values()) for path, weight in weights.items()}
    assert shares(UnigramSampler(scores, 0.5)) == pytest.approx(expected, abs=0.015)
    # ab is dropped in 1 of 5 draws; then bc is merged, or with both dropped nothing.
    merges = BPEDropoutSampler({"ab": -1.0, "bc": -2.0}, 0.2)
    assert shares(merges) == pytest.approx({"ab c": 0.8, "a bc": 0.16, "a b c": 0.04}, abs=0.015)


def test_another_process_has_the_same_samples(tmp_path: Path) -> None:
    STOCHASTIC["bpe"].save(tmp_path / "t")
    (tmp_path / "lines.json").write_text(json.dumps(TEXT))
    program = (
        "import json, sys; from pathlib import Path; from seq2attn.tokenizers.tokenizer_config import load_tokenizer\n"
        "folder = Path(sys.argv[1]); lines = json.loads((folder / 'lines.json').read_text())\n"
        "print(json.dumps(load_tokenizer(folder / 't').sample(lines, 5)))"
    )
    run = [sys.executable, "-c", program, str(tmp_path)]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == STOCHASTIC["bpe"].sample(TEXT, 5)


def test_corrupt_folders_are_errors(tmp_path: Path) -> None:
    def message(file: str) -> str:
        with pytest.raises(RunError) as error:
            load_tokenizer(tmp_path / "a")
        assert str(error.value).startswith(f"{tmp_path / 'a' / file}: ")
        return str(error.value)

    TRAINED["bpe"].save(tmp_path / "a")
    BPETokenizerConfig(vocab_size=300).train(TEXT).save(tmp_path / "b")
    shutil.copy(tmp_path / "b/sentencepiece.model", tmp_path / "a")
    assert "is not the vocabulary expected: 300 entries, expected 400" in message("sentencepiece.model")
    (tmp_path / "a/sentencepiece.model").write_bytes(b"no model")
    assert "is not a SentencePiece model" in message("sentencepiece.model")
    for file in ("sentencepiece.model", "vocabulary.json", "tokenizer.json"):
        (tmp_path / "a" / file).unlink()
        assert "cannot be read (No such file or directory); copy the whole run" in message(file)
    (tmp_path / "a/tokenizer.json").write_text('{"config": {"kind": "magic"}}')
    assert "describes no tokenizer known" in message("tokenizer.json")


@pytest.mark.parametrize(
    ("sides", "keys"),
    [({}, ["source", "target"]), ({"source": BPE}, ["target"]), ({"joint": BPE, "target": BPE}, ["target"])],
)
def test_sides_that_are_missing_or_too_many(sides: dict[str, dict[str, str]], keys: list[str]) -> None:
    with pytest.raises(ValidationError) as error:
        TokenizersConfig.model_validate(sides)
    assert [mistake.field for mistake in error.value.errors()[0]["ctx"]["error"].errors] == keys


def test_sides() -> None:
    adapter = TypeAdapter(TokenizersConfig)
    joint, separate = adapter.validate_python({"joint": BPE}), adapter.validate_python({"source": BPE, "target": WORD})
    assert joint.is_joint and joint.per_side == (joint.joint, joint.joint)
    assert not separate.is_joint and separate.per_side == (separate.source, separate.target)


def random_lines(count: int) -> list[str]:
    chance = Random(0)
    return ["".join(chance.choices("abcdefghijklmnop  ", k=150)) for _ in range(count)]


def test_an_interruption_ends_training_at_once() -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    text = random_lines(20_000)  # minutes of training
    before = signal.signal(signal.SIGALRM, interrupt)
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 1.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            UnigramTokenizerConfig(vocab_size=8000).train(text)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 15


@pytest.mark.parametrize("config", [BPETokenizerConfig(vocab_size=400), UnigramTokenizerConfig(vocab_size=400)])
def test_the_model_is_that_of_sentencepiece(config: BPETokenizerConfig | UnigramTokenizerConfig) -> None:
    text, model = [*random_lines(50), "a\rb c\x0bd"], BytesIO()
    special = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "<pad>", "unk_surface": " <unk> "}
    as_it_is = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "max_sentence_length": 2**16}
    special |= as_it_is | {"character_coverage": 1.0, "byte_fallback": True, "num_threads": 2, "minloglevel": 2}
    lines = iter(map(config.normalize, text))
    options = {"model_type": config.kind, "vocab_size": 400, "hard_vocab_limit": False, **special}
    SentencePieceTrainer.train(sentence_iterator=lines, model_writer=model, **options)
    assert config.train(text).model == model.getvalue()
