"""Neural machine translation with attention in one file: train on the phrasebook, translate, draw the attention.

python scripts/minimal.py --picture runs/minimal.html

Read it from top to bottom. Shapes: B sentences, S source tokens, T target tokens, D width of keys and queries.
"""

from __future__ import annotations

import argparse
import math
from itertools import count, islice
from pathlib import Path

import sacrebleu
import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn import (
    AttentionConfig,
    BPETokenizerConfig,
    Corpus,
    ModelConfig,
    Seq2Seq,
    Tokenizer,
    Translator,
    attention_text,
    build_model,
    draw_attention,
    make_batch,
    plan_batches,
)

TEXT = Path(__file__).parents[1] / "data" / "phrasebook"
SENTENCE = "Die Mutter hat dem Kind gestern ein neues Buch gegeben."


# 1. Attention. A query (here the decoder's state) is compared with a key for each source token. The softmax
#    of these scores are the weights, and the weighted mean of the values is the context for the decoder.


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention: [B, T, D], [B, S, D], [B, S, D], bool [B, S] -> [B, T, D], [B, T, S]"""
    scores = query @ keys.transpose(1, 2) / math.sqrt(query.size(-1))  # similarity of query and key
    scores = scores.masked_fill(~mask[:, None], -math.inf)  # no weight for padding
    weights = scores.softmax(-1)  # positive, and 1 in total for each query
    return weights @ values, weights


def check_attention() -> None:
    """Comparison with the library's attention: a score and an alignment (here a softmax), chosen by a config."""
    attention = AttentionConfig.model_validate({"score": {"kind": "dot", "scaled": True}}).build(8, 8, 8)
    query, keys, mask = torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.arange(5) < torch.tensor([[5], [4]])
    memory = attention.project_memory(keys, keys, mask)  # once for each sentence
    output = attention(query, memory, torch.arange(3).expand(2, 3), need_weights=True)
    context, weights = attend(query, keys, keys, mask)
    torch.testing.assert_close(output.context, context)
    torch.testing.assert_close(output.weights[:, 0], weights)  # [B, heads, T, S]: the only head


# 2. Tokenization. Byte-pair encoding splits rare words into subword tokens: 1,500 for both languages together.


def read(name: str) -> list[str]:
    """The lines of a file of the phrasebook."""
    return (TEXT / name).read_text(encoding="utf-8").splitlines()


def encode(tokenizer: Tokenizer, part: str) -> Corpus:
    """Pairs of token ids: German, English."""
    pairs = zip(read(f"{part}.de"), read(f"{part}.en"), strict=True)
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    return Corpus.from_pairs(ids, len(tokenizer.vocabulary))


# 3. The model of Bahdanau et al. (2015). A bidirectional GRU computes one vector per source token, its key and value.
#    The decoder, a GRU too, queries them with its state before each target token. Another score, decoder or encoder is
#    another kind, as in the YAML file of a config: try luong or transformer.


def build(vocab_size: int) -> Seq2Seq:
    """A model with random weights."""
    attention = {"score": {"kind": "additive", "dim": 256}}  # v . tanh(W q + U k)
    content = {
        "embeddings": {"dim": 128, "dropout": 0.2},
        "encoder": {"kind": "gru", "dim": 256, "dropout": 0.2},
        "decoder": {"kind": "bahdanau", "cell": "gru", "dim": 256, "dropout": 0.2, "attention": attention},
    }
    return build_model(ModelConfig.model_validate(content), vocab_size, vocab_size)


# 4. Training. The decoder predicts each target token from the correct previous ones (teacher forcing): cross-entropy.


def train(model: Seq2Seq, corpus: Corpus, updates: int) -> None:
    """Adam with gradient clipping and a cosine learning-rate schedule."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    epochs = (plan_batches(corpus.lengths, tokens=1500, seed=0, epoch=epoch) for epoch in count())
    batches = (make_batch(corpus, rows) for epoch in epochs for rows in epoch)
    model.train()
    for update, batch in enumerate(islice(batches, updates), 1):
        decoded = model(batch.source, batch.sequences, batch.target)  # target: BOS first
        log_probs = model.log_probs(decoded.hidden)
        loss = F.nll_loss(log_probs.flatten(0, 1), batch.labels.flatten())  # labels: EOS last
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if update % 50 == 0 or update == updates:
            print(f"update {update}: loss {loss.item():.3f}")
    model.eval()


# 5. Translation. Beam search keeps the five best prefixes; the encoder runs once, the decoder token by token.
# 6. The attention: a row for each token of the translation, a column for each source token.


def main() -> None:
    """Train, translate, score, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--updates", type=int, default=900, help="fewer to try it, 900 for good translations")
    parser.add_argument("--picture", type=Path, help="a .png, .svg or .pdf file, or a page: .html")
    options = parser.parse_args()
    torch.manual_seed(0)
    check_attention()
    tokenizer = BPETokenizerConfig(vocab_size=1500).train([*read("train.de"), *read("train.en")])
    model = build(len(tokenizer.vocabulary))
    train(model, encode(tokenizer, "train"), options.updates)
    translator = Translator.from_model(model, tokenizer, tokenizer)
    translations = [translation.text for translation in translator.translate(read("test.de"), beam=5)]
    bleu = sacrebleu.corpus_bleu(translations, [read("test.en")])
    print(f"BLEU on combinations of words that are not in the training text: {bleu.score:.1f}")
    translation = translator.translate(SENTENCE, attention=True)
    print(f"{SENTENCE}\n{translation.text}\n{attention_text(translation.attention_weights)}")
    if options.picture is not None:
        options.picture.parent.mkdir(parents=True, exist_ok=True)
        draw_attention(translation.attention_weights, options.picture)


if __name__ == "__main__":
    main()
