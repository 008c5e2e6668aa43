"""Small untrained runs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from seq2attn.config.load import load
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.weights import unique_state_dict
from seq2attn.models import Seq2Seq, build_model
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.words import WordTokenizerConfig

WORDS = ("a", "few", "words", "of", "which", "there", "are", "not", "many")
LINES = ("a few words", "not many words are there", "")
GRU = """\
  encoder: {kind: gru, dim: 8}
  decoder: {kind: luong, dim: 8}
"""
TRANSFORMER = """\
  encoder: {kind: transformer, layers: 1, heads: 2, ffn_dim: 8}
  decoder: {kind: transformer, layers: 1, heads: 2, ffn_dim: 8, attention: {score: {kind: multi-head, heads: 2}}}
"""
CONFIG = f"""\
run_dir: run
data:
  train: {{kind: plain, source: lines.txt, target: lines.txt}}
  dev: {{kind: plain, source: lines.txt, target: lines.txt}}
  test:
    ours: {{kind: plain, source: lines.txt, target: lines.txt}}
tokenizer: {{source: {{kind: words}}, target: {{kind: words}}}}
model:
  embeddings: {{dim: 8}}
{GRU}search: {{kind: beam, beam_size: 3, lengths: {{max_length: 9}}}}
"""
SWEEP = """\
base: {}
folder: swept
seeds: [1]
baseline: {{size: small}}
axes: {{size: {{at: model.embeddings.dim, choices: {{small: 8, large: 16}}}}}}
"""
RECIPE = f"""\
{SWEEP}title: A recipe
paper: A paper
published_in: a table
published: {{{{small: {{{{ours: 1}}}}}}}}
deviations: [All.]
"""
TRANSFORMER_CONFIG = CONFIG.replace(GRU, TRANSFORMER)


def untrained_run(
    folder: Path, config: str = CONFIG, words: Sequence[str] = WORDS, tags: tuple[str, ...] = ()
) -> RunDirectory:
    """`folder/run`: a config, tokenizers and initial weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lines.txt").write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    (folder / "own.yaml").write_text(config, encoding="utf-8")
    experiment = load(folder / "own.yaml", ExperimentConfig)
    run = RunDirectory(folder / "run")
    run.save_config(experiment)
    target = WordTokenizerConfig().train(words)
    source: Tokenizer = WordTokenizerConfig().train([*words, *words[5:]])  # so that each word has two ids
    source = source.with_tags(tags) if tags else source
    source.save(run.folder / "source")
    target.save(run.folder / "target")
    torch.manual_seed(1)
    model = build_model(experiment.model, len(source.vocabulary), len(target.vocabulary))
    run.save_model(unique_state_dict(model), (source.vocabulary, target.vocabulary), {"checkpoints": []})
    return run


def change_weights(run: RunDirectory, change: Callable[[Seq2Seq], object], origin: Any = None) -> None:
    """Weights of a run after `change`."""
    loaded = run.load()
    model, (source, target) = loaded.model, loaded.tokenizers
    with torch.no_grad():
        change(model)
    vocabularies = source.vocabulary, target.vocabulary
    run.save_model(unique_state_dict(model), vocabularies, origin or {"checkpoints": []})


PLUGIN = """
from pathlib import Path
from seq2attn.encoders.recurrent import RecurrentEncoder, RecurrentEncoderConfig

Path("it ran").touch()


class Theirs(RecurrentEncoder):
    class Config(RecurrentEncoderConfig):
        kind: str
        cell: str = "gru"

        def build(self, input_dim):
            options = self.model_dump() | {"kind": "gru"}
            del options["cell"]
            return RecurrentEncoderConfig(**options).build(input_dim)
"""
