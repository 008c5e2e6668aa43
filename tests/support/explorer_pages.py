"""Models to explore, and what tests do with the explorer's page in a browser."""

from seq2attn.explorer.explore import Explorer
from seq2attn.inference.translator import Translator
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.browser import Browser
from tests.support.models import model
from tests.support.searches import spread_logits

NAMES = ["one", "two", "three", "four", "five", "six", "seven"]
TEXT = "two </script><b> one seven"
MODELS = {
    "transformer": ("transformer", "multi-head", "global"),
    "local": ("luong", "general", "local-p"),
    "hard": ("luong", "general", "hard-gumbel"),
    "monotonic": ("luong", "general", "monotonic"),
    "none": ("fixed-gru", "additive", "global"),
}


def explorer(name: str) -> Explorer:
    decoder, score, align = MODELS[name]
    tokenizer = WordTokenizerConfig().train(NAMES)
    net = spread_logits(model("transformer" if name == "transformer" else "gru", decoder, score, align))
    search = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=6))
    return Explorer(name, Translator.from_model(net, tokenizer, tokenizer, search))


def texts(browser: Browser, selector: str) -> list[str]:
    """The text of all elements."""
    found: list[str] = browser.get(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")
    return found


def click(browser: Browser, section: str, name: str) -> None:
    """Click the button with this text."""
    buttons = f"[...document.querySelectorAll('#{section} button, {section} > form > button')]"
    browser.get(f"{buttons}.find(button => button.textContent === {name!r}).click()")
