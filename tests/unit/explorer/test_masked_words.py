"""A masked word is one unknown token, whatever the tokenizer."""

import pytest

from seq2attn.explorer.explore import Explorer, Question
from seq2attn.inference.translator import Translator
from seq2attn.tokenizers.words import CharacterTokenizerConfig
from tests.support.explorer_pages import explorer
from tests.support.models import model


@pytest.mark.parametrize(("word", "tokens"), [(0, "<unk> ▁ d e f </s>"), (1, "a b c <unk> </s>")])
def test_a_masked_word_of_several_tokens_is_one_unknown_token(word: int, tokens: str) -> None:
    tokenizer = CharacterTokenizerConfig().train(["abc def"])
    translator = Translator.from_model(model("gru", "luong-feeding", "multi-head"), tokenizer, tokenizer)
    found = Explorer("", translator).explore(Question("abc def", masked=(word,)))
    assert " ".join(found["source"]["tokens"]) == tokens


def test_a_masked_word_is_unknown_to_the_model() -> None:
    one = explorer("monotonic")
    found = one.explore(Question("two five one seven", masked=(1,)))
    assert found["source"]["tokens"][:4] == ("two", "<unk>", "one", "seven")
    unknown = one.translator.translate("two nothing one seven")
    texts = [hypothesis["text"] for hypothesis in found["hypotheses"]]
    assert texts == [each.text for each in (unknown, *unknown.alternatives)]
