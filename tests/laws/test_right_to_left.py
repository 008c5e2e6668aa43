"""Laws of tokens in reverse order: a training is that on text with reversed words, and text is as usual outside."""

import pytest

from seq2attn import TranslationOptions, load
from seq2attn.data.word_alignment import word_ids
from seq2attn.errors import UserError
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.source_line import SourceLine
from seq2attn.search.search_config import LengthsConfig
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig, load_tokenizer
from tests.support.commands import invoke_in
from tests.support.tokenizers import ODD, STOCHASTIC, TEXT, TRAINED
from tests.support.trainings import MODELS, assert_same, content, last_weights, metrics, train_run

WHITESPACE = {side: {"kind": "words", "pre_tokenizer": "whitespace"} for side in ("source", "target")}


@pytest.mark.parametrize("tokenizer", [*TRAINED.values(), *STOCHASTIC.values()])
def test_ids_are_reversed_and_text_is_not(tokenizer, tmp_path):
    reversing = tokenizer.with_direction(right_to_left=True)
    reversing.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.is_stochastic == tokenizer.is_stochastic and loaded.vocabulary == tokenizer.vocabulary
    assert loaded.sample(TEXT[:5], 3) == [ids[::-1] for ids in tokenizer.sample(TEXT[:5], 3)]
    for line in (*TEXT[:9], "", "red red 語 xyz, red", ODD):
        ids = tokenizer.encode(line)
        assert loaded.encode(line) == ids[::-1]
        assert loaded.encode_phrase(line) == tokenizer.encode_phrase(line)[::-1]
        assert loaded.decode(loaded.encode(line)) == tokenizer.decode(ids)
        assert loaded.word_ids(ids[::-1]) == tokenizer.word_ids(ids)[::-1]
        assert loaded.convert_ids_to_tokens(ids) == tokenizer.convert_ids_to_tokens(ids)
        assert word_ids(loaded, line, ids[::-1]) == word_ids(tokenizer, line, ids)[::-1]


@pytest.mark.filterwarnings("ignore:.*the translation has the maximum length")
@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param("recurrent", "right_to_left", marks=pytest.mark.slow),
        ("recurrent", "reverse_source"),
        pytest.param("transformer", "right_to_left", marks=pytest.mark.slow),
    ],
)
def test_a_training_is_that_on_reversed_words(corpus, name, key):
    """The same weights and dev loss, and translations with the words in the usual order."""
    options = {"model": MODELS[name], "max_duration": ["4 updates"], "validation": {"every": "2 updates"}}
    run = train_run(corpus, "right", tokenizer=WHITESPACE | {key: True}, **options)
    lines = (corpus / "dev.src").read_text().splitlines()
    for file in corpus.glob("*.tgt" if key == "right_to_left" else "*.src"):
        file.write_text("".join(" ".join(line.split()[::-1]) + "\n" for line in file.read_text().splitlines()))
    other = train_run(corpus, "left", tokenizer=WHITESPACE, **options)
    assert_same(last_weights(run), last_weights(other))
    found, expected = ([row["loss"] for row in metrics(one, "validation")] for one in (run, other))
    assert found == expected
    texts = [one.text for one in load(run.folder).translate(lines)]
    backward = [one.text for one in load(other.folder).translate((corpus / "dev.src").read_text().splitlines())]
    if key == "right_to_left":
        assert texts == [" ".join(text.split()[::-1]) for text in backward] != backward
    else:
        assert texts == backward


@pytest.mark.parametrize("tag", ["", "<2en>"])
@pytest.mark.parametrize("tokenizer", TRAINED.values())
def test_a_long_line_is_cut_where_it_would_be_in_the_usual_order(tokenizer, tag, tmp_path):
    if tag:
        tokenizer = tokenizer.with_tags((tag,))
    reversing = tokenizer.with_direction(right_to_left=True)
    reversing.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.is_right_to_left and not tokenizer.is_right_to_left
    for line in TEXT[:9]:
        line = f"{tag} {line}".strip()
        ids = tokenizer.encode(line)
        assert tuple(loaded.encode(line)) == loaded.reverse(line, ids) and loaded.decode(loaded.encode(line)) == line
        words = word_ids(loaded, line, loaded.encode(line))
        assert tuple(words) == loaded.reverse(line, word_ids(tokenizer, line, ids))
        for long_inputs in ("truncate", "split"):
            lengths, limit = LengthsConfig(long_inputs=long_inputs), SourceLimit(len(ids) // 2 + 1, "")
            found, expected = (SourceLine.encode(one, line, lengths, limit) for one in (loaded, tokenizer))
            assert found.texts == expected.texts and found.num_unknown == expected.num_unknown
            assert tuple(loaded.reverse(line, part) for part in found.segments) == expected.segments


@pytest.mark.slow
def test_the_vocabulary_of_a_run_serves_both_directions(corpus):
    left = train_run(corpus, "left", tokenizer={"joint": {"kind": "characters"}}, max_duration=["2 updates"])
    shared = {"run_dir": str(left.folder), "right_to_left": True}
    right = train_run(corpus, "right", tokenizer=shared, max_duration=["2 updates"])
    again = train_run(corpus, "again", tokenizer={"run_dir": str(right.folder)}, max_duration=["2 updates"])
    line = (corpus / "dev.tgt").read_text().splitlines()[0]
    ids = [run.load_tokenizers().target.encode(line) for run in (left, right, again)]
    assert ids[0][::-1] == ids[1] != ids[0] == ids[2]
    assert right.load_tokenizers().source.encode(line) == ids[0]  # the source is as always
    config = right.load_config().tokenizer
    assert config.is_joint and config.right_to_left
    with pytest.raises(UserError, match="no translation can begin with 'ba': the model writes from right to left"):
        load(right.folder).translate("ba", prefix="ba")
    with pytest.raises(UserError, match="one writes from left to right, the other from right to left"):
        load(left.folder, TranslationOptions(ensemble=[right.folder]))
    error = invoke_in(corpus, "export", right.folder, "--to", "onnx", code=2).err
    assert "its target tokens are in reverse order" in error and not (right.folder / "onnx").exists()
    shared = {"run_dir": str(left.folder), "reverse_source": True}
    reverse = train_run(corpus, "reverse", tokenizer=shared, max_duration=["2 updates"])
    assert [one.encode(line) for one in reverse.load_tokenizers()] == [ids[1], ids[0]]
    error = invoke_in(corpus, "export", reverse.folder, "--to", "onnx", code=2).err
    assert "its source tokens are in reverse order" in error and not (reverse.folder / "onnx").exists()


def test_given_tokenizers_are_refused(corpus):
    given = {"kind": "sentencepiece", "path": str(corpus / "train.src")}
    for key in ("right_to_left", "reverse_source"):
        with pytest.raises(ValueError, match=rf"{key}.*trained here; `sentencepiece` belongs to a pretrained model"):
            TokenizersConfig.model_validate({"joint": given, key: True})
    assert not TokenizersConfig.model_validate(content(corpus, "run")["tokenizer"]).right_to_left
