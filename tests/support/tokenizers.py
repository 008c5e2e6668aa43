"""Tokenizers of each kind, of one text."""

from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig
from seq2attn.tokenizers.tokenizer_config import TokenizerConfig
from seq2attn.tokenizers.words import CharacterTokenizerConfig, WordTokenizerConfig

WORDS = ("red", "green", "lantern", "river", "mountain", "slowly", "wandering", "thunder", "paper", "boat")
TEXT = [f"The {a} {b}, and (a {c}) of {b}s." for a in WORDS for b in WORDS for c in WORDS[:3]]
CONFIGS: dict[str, TokenizerConfig] = {
    "bpe": BPETokenizerConfig(vocab_size=400),
    "unigram": UnigramTokenizerConfig(vocab_size=320),
    "words": WordTokenizerConfig(),
    "whitespace": WordTokenizerConfig(pre_tokenizer="whitespace"),
    "characters": CharacterTokenizerConfig(),
}
TRAINED = {name: config.train(TEXT) for name, config in CONFIGS.items()}
STOCHASTIC = {
    "bpe": BPETokenizerConfig(vocab_size=400, dropout=0.2).train(TEXT),
    "unigram": UnigramTokenizerConfig(vocab_size=320, alpha=0.2, lowercase=True).train(TEXT),
}

ODD = "a•b\u00a0c ,d ﬁn ´x ▁ y▁z Σας don't"
