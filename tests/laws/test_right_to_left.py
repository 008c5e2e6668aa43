"""Laws of right-to-left models: a training on text whose target words are reversed, and text as usual outside."""

import pytest

from seq2attn.data.word_alignment import word_ids
from seq2attn.errors import UserError
from seq2attn.inference.ensemble import load
from seq2attn.tokenizers.config import TokenizersConfig, load_tokenizer
from seq2attn.tokenizers.right_to_left import RightToLeftTokenizer
from tests.cli.conftest import invoke_in
from tests.laws.small import MODELS, assert_same, content, last_weights, metrics, trained
from tests.unit.tokenizers.test_tokenizers import STOCHASTIC, TEXT, TRAINED

WHITESPACE = {side: {"kind": "words", "pre_tokenizer": "whitespace"} for side in ("source", "target")}


@pytest.mark.parametrize("tokenizer", [*TRAINED.values(), *STOCHASTIC.values()])
def test_ids_are_reversed_and_text_is_not(tokenizer, tmp_path):
    reversing = RightToLeftTokenizer(tokenizer)
    reversing.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.is_stochastic == tokenizer.is_stochastic and loaded.vocabulary == tokenizer.vocabulary
    assert loaded.sample(TEXT[:5], 3) == [ids[::-1] for ids in tokenizer.sample(TEXT[:5], 3)]
    for line in (*TEXT[:9], "", "red red 語 xyz, red"):
        ids = tokenizer.encode(line)
        assert loaded.encode(line) == ids[::-1]
        assert loaded.decode(loaded.encode(line)) == tokenizer.decode(ids)
        assert loaded.word_ids(ids[::-1]) == tokenizer.word_ids(ids)[::-1]
        assert loaded.convert_ids_to_tokens(ids) == tokenizer.convert_ids_to_tokens(ids)
        assert word_ids(loaded, line, ids[::-1]) == word_ids(tokenizer, line, ids)[::-1]


@pytest.mark.filterwarnings("ignore:.*the translation has the maximum length")
@pytest.mark.parametrize("name", [pytest.param("recurrent", marks=pytest.mark.slow), "transformer"])
def test_a_training_is_that_on_reversed_words(corpus, name):
    """The same weights and dev loss, and translations with the words in the usual order."""
    options = {"model": MODELS[name], "max_duration": ["4 updates"], "validation": {"every": "2 updates"}}
    run = trained(corpus, "right", tokenizer=WHITESPACE | {"right_to_left": True}, **options)
    for file in corpus.glob("*.tgt"):
        file.write_text("".join(" ".join(line.split()[::-1]) + "\n" for line in file.read_text().splitlines()))
    other = trained(corpus, "left", tokenizer=WHITESPACE, **options)
    assert_same(last_weights(run), last_weights(other))
    found, expected = ([row["loss"] for row in metrics(one, "validation")] for one in (run, other))
    assert found == expected
    lines = (corpus / "dev.src").read_text().splitlines()
    texts, backward = ([one.text for one in load(one.folder).translate(lines)] for one in (run, other))
    assert texts == [" ".join(text.split()[::-1]) for text in backward] != backward


def test_the_vocabulary_of_a_run_serves_both_directions(corpus):
    left = trained(corpus, "left", tokenizer={"joint": {"kind": "characters"}}, max_duration=["2 updates"])
    shared = {"run_dir": str(left.folder), "right_to_left": True}
    right = trained(corpus, "right", tokenizer=shared, max_duration=["2 updates"])
    again = trained(corpus, "again", tokenizer={"run_dir": str(right.folder)}, max_duration=["2 updates"])
    line = (corpus / "dev.tgt").read_text().splitlines()[0]
    ids = [run.load_tokenizers()[1].encode(line) for run in (left, right, again)]
    assert ids[0][::-1] == ids[1] != ids[0] == ids[2]
    assert right.load_tokenizers()[0].encode(line) == ids[0]  # the source is as always
    config = right.load_config().tokenizer
    assert config.is_joint and config.right_to_left
    with pytest.raises(UserError, match="no translation can begin with 'ba': the model writes from right to left"):
        load(right.folder).translate("ba", prefix="ba")
    with pytest.raises(UserError, match="one writes from left to right, the other from right to left"):
        load(left.folder, ensemble=[right.folder])
    error = invoke_in(corpus, "export", right.folder, "--to", "onnx", code=2).err
    assert "writes from right to left" in error and not (right.folder / "onnx").exists()


def test_given_tokenizers_are_refused(corpus):
    given = {"kind": "sentencepiece", "path": str(corpus / "train.src")}
    with pytest.raises(ValueError, match=r"right_to_left.*needs a trained tokenizer: `sentencepiece`"):
        TokenizersConfig.model_validate({"joint": given, "right_to_left": True})
    assert not TokenizersConfig.model_validate(content(corpus, "run")["tokenizer"]).right_to_left
