"""Training of SentencePiece models, which an interruption ends at once."""

from __future__ import annotations

import random
import signal
import time
from types import FrameType

import pytest

from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig

LETTERS = "abcdefghijklmnop"


def lines(count: int) -> list[str]:
    draw = random.Random(0)
    return ["".join(draw.choices(LETTERS + "  ", k=150)) for _ in range(count)]


def test_an_interruption_does_not_wait_for_the_end() -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    text = lines(40_000)  # minutes of training
    before = signal.signal(signal.SIGALRM, interrupt)
    began = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 3.0)
    try:
        with pytest.raises(KeyboardInterrupt):
            UnigramTokenizerConfig(vocab_size=8000).train(text)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("config", [BPETokenizerConfig(vocab_size=400), UnigramTokenizerConfig(vocab_size=400)])
def test_the_same_lines_give_the_pieces_that_sentencepiece_gives(
    config: BPETokenizerConfig | UnigramTokenizerConfig,
) -> None:
    import io

    from sentencepiece import SentencePieceTrainer

    text, model = [*lines(50), "a\rb c\x0bd"], io.BytesIO()
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
