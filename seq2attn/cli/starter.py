"""A commented config for a parallel corpus, with a model that suits its size."""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from yaml import ScalarNode
from yaml.resolver import Resolver

PLAIN = re.compile(r"[\w./-]*[A-Za-z_./][\w./-]*")
"""Paths that need no quotes in YAML, unless they are a number or a word such as `no`."""


@dataclass(frozen=True)
class StarterModel:
    """A Transformer and its vocabulary, for corpora up to a number of pairs."""

    max_pairs: float
    vocab_size: int
    dim: int
    layers: int
    heads: int
    ffn_dim: int
    dropout: float
    lr: float
    reason: str


ENTRIES_PER_CHARACTER, OTHER_ENTRIES = 2, 500
"""Minimum size of a vocabulary: each character of the text is an entry, and subwords need as many again."""
STARTER_MODELS: Sequence[StarterModel] = (
    StarterModel(20_000, 2_000, 256, 3, 4, 1024, 0.2, 1e-3, "small vocabulary: each token occurs often"),
    StarterModel(100_000, 5_000, 256, 3, 4, 1024, 0.1, 1e-3, "sizes as configs/multi30k, for 29,000 pairs"),
    StarterModel(1_000_000, 10_000, 512, 6, 4, 1024, 0.3, 5e-4, "as transformer_iwslt_de_en of fairseq"),
    StarterModel(float("inf"), 32_000, 512, 6, 8, 2048, 0.1, 7e-4, "Transformer base (Vaswani et al. 2017)"),
)
"""The smallest corpora first."""

TEMPLATE = """\
# A translation model for {pairs:,} sentence pairs, written by `seq2attn init`.
# All keys: docs/config.md, or `seq2attn config show {name}`. One value for one call: --set search.beam_size=10
#
{table}
#
# Training writes all files to the run directory, which is relative to the working directory.
run_dir: {run_dir}
data:                             # UTF-8, one sentence per line, not tokenized; paths are relative to this file
  train: {{kind: plain, source: {source}, target: {target}}}
  dev: {{kind: plain, source: {dev_source}, target: {dev_target}}}   # selects checkpoints; not in the training text
  # test:                         # what `seq2attn evaluate` scores; any number of sets, each with a name
  #   news: {{kind: plain, source: news.src, target: news.trg}}
  filters: {{max_length: 128, max_length_ratio: 3}}   # training pairs with more tokens on a side are left out
tokenizer:
  joint: {{kind: bpe, vocab_size: {vocab_size}}}    # one vocabulary for the text of both languages{size_reason}
model:
  embeddings: {{dim: {dim}, tie: all, dropout: {dropout}}}   # one table for source, target and output
  encoder: {{kind: transformer, layers: {layers}, heads: {heads}, ffn_dim: {ffn_dim}, dropout: {dropout}}}
  decoder:
    kind: transformer
    layers: {layers}
    heads: {heads}
    ffn_dim: {ffn_dim}
    dropout: {dropout}
    attention: {{score: {{kind: multi-head, heads: {heads}}}}}
  # An RNN with additive attention instead (Bahdanau et al. 2015):
  # embeddings: {{dim: 256, dropout: 0.2}}
  # encoder: {{kind: gru, dim: 512, dropout: 0.2}}
  # decoder: {{kind: bahdanau, cell: gru, dim: 512, dropout: 0.2}}
training:                         # batch size and warm-up are chosen by the size of the corpus
  max_duration: [30 epochs, 8 hours]   # whichever comes first
  optimizer: {{kind: adam, lr: {lr}}}    # lower it if the loss rises or updates are skipped
  validation: {{every: 1 epoch, patience: 5}}   # training ends after 5 validations without a better BLEU
search:
  kind: beam
  beam_size: 5
  # lengths: {{source_language: de}}  # whose abbreviations end no sentence where a long line is split; `en` by default
"""


def starter_model(num_pairs: int) -> StarterModel:
    """The model for a corpus of `num_pairs`."""
    return next(model for model in STARTER_MODELS if num_pairs <= model.max_pairs)


def starter_config(
    output: Path,
    *,
    train: tuple[Path, Path],
    dev: tuple[Path, Path],
    run_dir: Path,
    num_pairs: int,
    num_characters: int,
) -> str:
    """The YAML of a config at `output`, for the source and target files of training and dev text.

    `num_characters` is the number of distinct characters of the training text, thousands in Chinese and Japanese.
    """
    model = starter_model(num_pairs)
    vocab_size = max(model.vocab_size, ENTRIES_PER_CHARACTER * num_characters + OTHER_ENTRIES)
    size_reason = "" if vocab_size == model.vocab_size else f", which has {num_characters:,} characters"
    source, target, dev_source, dev_target = (
        _quoted(str(path) if path.is_absolute() else os.path.relpath(path, output.parent))
        for path in map(Path.expanduser, (*train, *dev))
    )
    return TEMPLATE.format(
        **vars(model) | {"vocab_size": vocab_size},
        size_reason=size_reason,
        name=output.name,
        pairs=num_pairs,
        run_dir=_quoted(str(run_dir)),
        source=source,
        target=target,
        dev_source=dev_source,
        dev_target=dev_target,
        table=_table(model),
    )


def _table(chosen: StarterModel) -> str:
    """All models as comment lines, with the chosen one marked."""
    rows = ["#   pairs               vocabulary  layers  dim  dropout  reason"]
    for model in STARTER_MODELS:
        pairs = "more" if model is STARTER_MODELS[-1] else f"up to {model.max_pairs:,}"
        mark = ">" if model is chosen else " "
        rows.append(
            f"# {mark} {pairs:<18} {model.vocab_size:>11,} {model.layers:>5} + {model.layers}"
            f" {model.dim:>4} {model.dropout:>8}  {model.reason}"
        )
    return "\n".join(rows)


def _quoted(text: str) -> str:
    tag = Resolver().resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    is_text = tag == Resolver.DEFAULT_SCALAR_TAG
    return text if is_text and PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
