"""Tokenisers: text comes back, draws can be repeated, folders read back."""

import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from seq2attn.errors import DataError, RunError
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.characters import CharacterTokenizerConfig
from seq2attn.tokenizers.config import TokenizerConfig, TokenizersConfig
from seq2attn.tokenizers.load import load_tokenizer
from seq2attn.tokenizers.normalize import NormalizeConfig
from seq2attn.tokenizers.subword_regularization import BPEDropoutSampler, UnigramSampler
from seq2attn.tokenizers.subwords import BPETokenizerConfig, SubwordTokenizer, UnigramTokenizerConfig
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, Vocabulary
from seq2attn.tokenizers.words import WordTokenizerConfig

WORDS = ("red", "green", "lantern", "river", "mountain", "slowly", "wandering", "thunder", "paper", "boat")
TEXT = [f"The {a} {b}, and (a {c}) of {b}s." for a in WORDS for b in WORDS for c in WORDS[:3]]

CONFIGS: dict[str, TokenizerConfig] = {
    "bpe": BPETokenizerConfig(vocab_size=400),
    "unigram": UnigramTokenizerConfig(vocab_size=320),
    "words": WordTokenizerConfig(),
    "whitespace": WordTokenizerConfig(pre_tokenizer="whitespace"),
    "characters": CharacterTokenizerConfig(),
}
RANDOM: dict[str, TokenizerConfig] = {
    "bpe": BPETokenizerConfig(vocab_size=400, dropout=0.2),
    "unigram": UnigramTokenizerConfig(vocab_size=320, alpha=0.2),
}
TRAINED = {name: config.train(TEXT) for name, config in CONFIGS.items()}
STOCHASTIC = {name: config.train(TEXT) for name, config in RANDOM.items()}


def tidy(line: str) -> str:
    return NormalizeConfig().normalize(line)


@pytest.mark.parametrize("name", CONFIGS)
def test_known_text_comes_back(name: str) -> None:
    tokenizer = TRAINED[name]
    for line in [*TEXT, "", " ", "  The\tred and  "]:
        assert tokenizer.decode(tokenizer.encode(line)) == tidy(line)
    assert all(UNK not in tokenizer.encode(line) for line in TEXT)


@pytest.mark.parametrize("name", ["bpe", "unigram"])
@given(line=st.text())
@example("a 😀 b")
@example("日本語 தமிழ் עברית")
@example("<s> </s> <unk> <pad> <0x41> ▁ ⁇ ￭")
@example("e\u0301 \x00 \ufeff \u2028 \x85 \t")
def test_any_text_comes_back_from_subwords(name: str, line: str) -> None:
    ids = TRAINED[name].encode(line)
    assert TRAINED[name].decode(ids) == tidy(line)
    assert min(ids, default=9) >= len(SPECIAL_TOKENS)


@given(line=st.text())
@example("don't — «a»b_c 3.14 ... ￭ x￭y ￭￭ a\u0301\u0301 हिन्दी")
def test_any_text_comes_back_from_words_and_characters_that_know_it(line: str) -> None:
    for config in (CONFIGS["words"], CONFIGS["whitespace"], CONFIGS["characters"]):
        tokenizer = config.train([line])
        ids = tokenizer.encode(line)
        if any(special in line for special in SPECIAL_TOKENS):
            continue
        expected = tidy(line) if isinstance(config, CharacterTokenizerConfig) else tidy(line.replace("￭", "■"))
        assert tokenizer.decode(ids) == expected
        assert UNK not in ids


@given(line=st.text(), unicode=st.sampled_from(["none", "nfc", "nfkc"]), lowercase=st.booleans())
def test_normal_text_is_one_tidy_line(line: str, unicode: str, lowercase: bool) -> None:
    config = NormalizeConfig.model_validate({"normalization": unicode, "lowercase": lowercase})
    assert config.normalize(line).split() == [word for word in config.normalize(line).split(" ") if word]


def test_normal_forms() -> None:
    assert NormalizeConfig().normalize("  Cafe\u0301 \u2028 ﬁ ") == "Café ﬁ"
    assert NormalizeConfig(normalization="none").normalize("e\u0301") == "e\u0301"
    assert NormalizeConfig(normalization="nfkc", lowercase=True).normalize("ﬁ Ａ ℡") == "fi a tel"


@pytest.mark.parametrize("name", CONFIGS)
def test_decode_skips_controls_shows_the_unknown_and_stays_one_line(name: str) -> None:
    tokenizer = TRAINED[name]
    red = tokenizer.encode("red")
    assert tokenizer.decode([BOS, *red, EOS, PAD]) == "red"
    assert "<unk>" in tokenizer.decode([*red, UNK])
    assert tokenizer.convert_ids_to_tokens([PAD, BOS, EOS, UNK]) == list(SPECIAL_TOKENS)
    assert tokenizer.convert_ids_to_tokens(red) == [tokenizer.vocabulary.tokens[id] for id in red]
    breaks = [id for id in (tokenizer.vocabulary.id(f"<0x{byte:02X}>") for byte in (10, 13)) if id != UNK]
    assert tokenizer.decode([*red, *breaks, *red]).splitlines() in (["red red"], ["redred"])


def test_words_carry_joiners() -> None:
    words = WordTokenizerConfig().segment("Don't wait, (she) said. 3.14?! a_b")
    assert " ".join(words) == "Don ￭'￭ t wait ￭, (￭ she ￭) said ￭. 3 ￭.￭ 14 ￭? ￭! a_b"


def test_punctuation_is_known_wherever_it_stands() -> None:
    tokenizer = WordTokenizerConfig().train(["a, (b)"])
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("a ,b( a")) == ["a", "￭,", "b", "(￭", "a"]


def test_vowel_signs_stay_in_their_words() -> None:
    assert WordTokenizerConfig().segment("हिन्दी தமிழ்") == ["हिन्दी", "தமிழ்"]


def test_a_control_in_the_text_is_a_word() -> None:
    assert TRAINED["whitespace"].encode("<s> red </s> <pad>") == [
        UNK,
        *TRAINED["whitespace"].encode("red"),
        UNK,
        UNK,
    ]


def test_words_from_a_list(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("<unk>\nred\n.\nboat\n")
    tokenizer = WordTokenizerConfig(vocab_file=tmp_path / "v.txt").train([])
    assert tokenizer.vocabulary.tokens[4:] == ("red", ".", "boat")
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("red boat. sea")) == ["red", "boat", ".", "<unk>"]
    Vocabulary.from_tokens(["sea"]).save(tmp_path / "v.json")
    assert WordTokenizerConfig(vocab_file=tmp_path / "v.json").train([]).vocabulary.tokens[4:] == ("sea",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("twice.txt", '{path}:3: "red" is in line 1 too'),
        ("list.csv", "{path}: expected a vocabulary as .txt (a word a line) or .json"),
        ("none.txt", "{path}: there is no such file"),
    ],
)
def test_lists_that_cannot_be_used(tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / name
    if name != "none.txt":
        path.write_text("red\nboat\nred\n")
    with pytest.raises(DataError) as error:
        WordTokenizerConfig(vocab_file=path).train([])
    assert str(error.value) == message.format(path=path)


@pytest.mark.parametrize("config", [BPETokenizerConfig(), UnigramTokenizerConfig()])
def test_a_small_text_gives_a_small_vocabulary(config: BPETokenizerConfig | UnigramTokenizerConfig) -> None:
    assert 260 < len(config.train(TEXT[:3]).vocabulary) < 400


@pytest.mark.parametrize(
    ("config", "lines", "message"),
    [
        (BPETokenizerConfig(vocab_size=262), ["abcdef"], "raise `vocab_size` to 267 or more"),
        (UnigramTokenizerConfig(vocab_size=262), ["abcdef"], "raise `vocab_size` to 267 or more"),
        (BPETokenizerConfig(), ["", " "], "there is no text to train subwords on"),
    ],
)
def test_text_that_gives_no_pieces(config: BPETokenizerConfig, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        config.train(lines)


@pytest.mark.parametrize("name", CONFIGS)
def test_training_can_be_repeated(name: str) -> None:
    assert CONFIGS[name].train(TEXT).vocabulary == TRAINED[name].vocabulary


@pytest.mark.parametrize("name", CONFIGS)
def test_without_chance_sampling_is_encoding(name: str) -> None:
    assert not TRAINED[name].is_stochastic
    assert TRAINED[name].sample(TEXT[:9], seed=3) == [TRAINED[name].encode(line) for line in TEXT[:9]]


@pytest.mark.parametrize("name", RANDOM)
def test_samples_are_a_function_of_lines_and_seed(name: str) -> None:
    tokenizer = STOCHASTIC[name]
    assert tokenizer.is_stochastic
    first = tokenizer.sample(TEXT, seed=1)
    tokenizer.sample(TEXT[:7], seed=2)
    assert tokenizer.sample(TEXT, seed=1) == first != tokenizer.sample(TEXT, seed=2)
    assert first != [tokenizer.encode(line) for line in TEXT]
    assert [tokenizer.decode(ids) for ids in first] == TEXT
    assert tokenizer.encode(TEXT[0]) == tokenizer.encode(TEXT[0])
    assert tokenizer.sample(TEXT, seed=2**32 - 1) == tokenizer.sample(TEXT, seed=2**32 - 1)


ODD = [*TEXT[::40], "a 😀日 b", "<s> <0x41> ⁇", "xyzzy Zq", ""]


def test_our_cuts_without_chance_are_those_of_sentencepiece() -> None:
    hardly = (
        BPETokenizerConfig(vocab_size=400, dropout=1e-12),
        UnigramTokenizerConfig(vocab_size=320, alpha=1e6),
    )
    for config, name in zip(hardly, ("bpe", "unigram"), strict=True):
        trained = TRAINED[name]
        assert isinstance(trained, SubwordTokenizer)
        tokenizer = SubwordTokenizer(config, trained.model)
        assert tokenizer.sample(ODD, seed=0) == [trained.encode(line) for line in ODD]


def test_paths_are_drawn_as_often_as_they_should() -> None:
    scores = {"a": -1.0, "b": -2.0, "ab": -2.5, "c": -1.5, "bc": -3.0, "abc": -5.0}
    paths = {"a b c": -4.5, "ab c": -4.0, "a bc": -4.0, "abc": -5.0}
    weights = {path: math.exp(0.5 * score) for path, score in paths.items()}
    random, drawn = Random(0), Counter[str]()
    for _ in range(20_000):
        drawn[" ".join(UnigramSampler(scores, 0.5).segment("abc", random))] += 1
    for path, weight in weights.items():
        assert drawn[path] / 20_000 == pytest.approx(weight / sum(weights.values()), abs=0.015)


def test_merges_are_dropped_as_often_as_they_should() -> None:
    # ab is dropped in 1 of 5 draws; abc then needs bc (kept) or nothing at all (both dropped).
    merges, random, drawn = BPEDropoutSampler({"ab": -1.0, "bc": -2.0}, 0.2), Random(0), Counter[str]()
    for _ in range(20_000):
        drawn[" ".join(merges.segment("abc", random))] += 1
    for path, share in {"ab c": 0.8, "a bc": 0.16, "a b c": 0.04}.items():
        assert drawn[path] / 20_000 == pytest.approx(share, abs=0.015)


def test_another_process_draws_the_same(tmp_path: Path) -> None:
    STOCHASTIC["bpe"].save(tmp_path / "t")
    (tmp_path / "lines.json").write_text(json.dumps(TEXT))
    program = (
        "import json, sys; from pathlib import Path; from seq2attn.tokenizers.load import load_tokenizer\n"
        "folder = Path(sys.argv[1]); lines = json.loads((folder / 'lines.json').read_text())\n"
        "print(json.dumps(load_tokenizer(folder / 't').sample(lines, 5)))"
    )
    run = [sys.executable, "-c", program, str(tmp_path)]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == STOCHASTIC["bpe"].sample(TEXT, 5)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_reads_back(tmp_path: Path, name: str) -> None:
    tokenizer = TRAINED[name]
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.vocabulary == tokenizer.vocabulary
    assert [loaded.encode(line) for line in TEXT] == [tokenizer.encode(line) for line in TEXT]


def broken(folder: Path, file: str) -> str:
    with pytest.raises(RunError) as error:
        load_tokenizer(folder)
    message = str(error.value)
    assert message.startswith(f"{folder / file}: ")
    return message


def test_folders_that_do_not_fit_together(tmp_path: Path) -> None:
    TRAINED["bpe"].save(tmp_path / "a")
    other: Tokenizer = BPETokenizerConfig(vocab_size=300).train(TEXT)
    other.save(tmp_path / "b")
    shutil.copy(tmp_path / "b/sentencepiece.model", tmp_path / "a")
    assert "is not the vocabulary expected: 300 entries, expected 400" in broken(tmp_path / "a", "sentencepiece.model")
    (tmp_path / "a/sentencepiece.model").write_bytes(b"no model")
    assert "is not a SentencePiece model" in broken(tmp_path / "a", "sentencepiece.model")
    for file in ("sentencepiece.model", "vocabulary.json", "tokenizer.json"):
        (tmp_path / "a" / file).unlink()
        assert "cannot be read (No such file or directory); prepare" in broken(tmp_path / "a", file)
    (tmp_path / "a/tokenizer.json").write_text('{"config": {"kind": "magic"}}')
    assert "describes no tokenizer known" in broken(tmp_path / "a", "tokenizer.json")


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({}, ["source", "target"]),
        ({"source": {"kind": "bpe"}}, ["target"]),
        ({"joint": {"kind": "bpe"}, "target": {"kind": "bpe"}}, ["target"]),
    ],
)
def test_joint_or_each_side(given: dict[str, dict[str, str]], keys: list[str]) -> None:
    with pytest.raises(ValidationError) as error:
        TokenizersConfig.model_validate(given)
    assert [mistake.field for mistake in error.value.errors()[0]["ctx"]["error"].errors] == keys


def test_sides() -> None:
    joint = TokenizersConfig(joint=BPETokenizerConfig())
    each = TokenizersConfig(source=BPETokenizerConfig(), target=WordTokenizerConfig())
    assert joint.is_joint and joint.per_side == (joint.joint, joint.joint)
    assert not each.is_joint and each.per_side == (each.source, each.target)


def test_counting_and_reading_words_exclude_each_other(tmp_path: Path) -> None:
    adapter: TypeAdapter[TokenizerConfig] = TypeAdapter(TokenizerConfig)
    with pytest.raises(ValidationError, match="takes them from a file"):
        adapter.validate_python({"kind": "words", "vocab_size": 9, "vocab_file": str(tmp_path / "v.txt")})
