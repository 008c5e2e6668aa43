"""The common text of the benchmarks."""

from itertools import chain

import pytest
from benchmark.prepare import prepare_all
from benchmark.programs import batches
from benchmark.setting import Setting, UnavailableError
from benchmark.systems import Ours
from benchmark.text import num_target_tokens, prepare_text

from seq2attn.data.prepared_data import load_prepared
from seq2attn.tokenizers.subwords import BPETokenizerConfig, SubwordTokenizer
from tests.support.benchmarks import setting

__all__ = ["setting"]


def texts_of(setting):
    return [(setting.corpus / f"train.{language}").read_text("utf-8").split("\n")[:-1] for language in ("de", "en")]


def test_all_systems_have_the_tokens_of_our_tokenizer(setting):
    config = BPETokenizerConfig(vocab_size=400)
    model = prepare_text(setting, config)
    tokenizer = SubwordTokenizer(config, model)
    assert config.train(chain.from_iterable(texts_of(setting))).model == model  # as a training makes it
    for language, lines in zip(("de", "en"), texts_of(setting), strict=True):
        tokenized = (setting.data / f"train.bpe.{language}").read_text("utf-8").split("\n")[:-1]
        tokens = [tokenizer.convert_ids_to_tokens(tokenizer.encode(line)) for line in lines]
        assert [line.split() for line in tokenized] == [list(line) for line in tokens]
    assert num_target_tokens(setting) == sum(len(line) + 1 for line in tokens)
    ids = batches.sentences(setting.data, setting.data / "train.bpe.en")
    assert batches.vocabulary(setting.data) == list(tokenizer.vocabulary.tokens)
    assert ids[:5] == [tokenizer.encode(line) for line in lines[:5]]
    # A second call changes nothing; other files are refused.
    assert prepare_text(setting, config) == model
    (setting.data / "val.bpe.en").write_text("something else\n", "utf-8")
    with pytest.raises(UnavailableError, match=r"val\.bpe\.en has another content"):
        prepare_text(setting, config)
    with pytest.raises(UnavailableError, match=r"train\.de is missing: python scripts/download\.py"):
        prepare_text(Setting(setting.corpus / "none", setting.runs), config)


ODD_LINES = [
    "ein  Wort  mit   Lücken", "  vorn und hinten  ", "\u00a0x\u2003y\u3000z\t.", "a\u0085b\u2028c\x1cd\x0be", "CR\r",
    "ge\u00admu\u0308se\u200b", "e\u0301te\u0301\u0323", "\ufb01ne \uff28\u2581_ \u2581", "\ufeffBOM", "\u1100\u1161",
]  # fmt: skip
"""Double and odd spaces, soft hyphens, combining accents, compatibility characters and unusual line breaks."""
SPLITS = {"train": "train", "dev": "val", "test.test2016": "test_2016_flickr"}
SIDES = {"source": "de", "target": "en"}


def test_a_text_of_odd_characters_is_prepared_for_all_systems(setting):
    for path in setting.corpus.iterdir():
        path.write_text(path.read_text("utf-8") + "".join(f"{line}\n" for line in ODD_LINES), "utf-8")
    files = {
        f"data.{name}.{side}": setting.corpus / f"{split}.{language}"
        for name, split in SPLITS.items()
        for side, language in SIDES.items()
    }
    overrides = ["tokenizer.joint.vocab_size=400", *(f"{key}={path}" for key, path in files.items())]
    system = Ours(setting, overrides=tuple(overrides))
    prepare_all(system, ("t",), timed=False)  # which compares the numbers of tokens
    prepared = load_prepared(system.run("t"))
    for side, language in enumerate(SIDES.values()):
        ours_ids = [list(pair[side]) for pair in prepared.train.corpus]
        assert batches.sentences(setting.data, setting.data / f"train.bpe.{language}") == ours_ids
