"""Training of SentencePiece models: same output as SentencePiece, and interruptible."""

import random
import signal
import time
from io import BytesIO
from types import FrameType

import pytest
from sentencepiece import SentencePieceTrainer

from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig


def lines(count: int) -> list[str]:
    chance = random.Random(0)
    return ["".join(chance.choices("abcdefghijklmnop  ", k=150)) for _ in range(count)]


def test_an_interruption_ends_training_at_once() -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    text = lines(20_000)  # minutes of training
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
    text, model = [*lines(50), "a\rb c\x0bd"], BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(map(config.normalize, text)),
        model_writer=model,
        model_type=config.kind,
        vocab_size=400,
        hard_vocab_limit=False,
        character_coverage=1.0,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        pad_piece="<pad>",
        unk_surface=" <unk> ",
        max_sentence_length=2**16,
        num_threads=2,
        minloglevel=2,
    )
    assert config.train(text).model == model.getvalue()
