"""BLEU of Joey NMT, trained as runs of seq2attn were: the same text, tokens, architecture, updates, seed and search.

seq2attn sweep configs/sweeps/joeynmt.yaml
python scripts/joeynmt.py runs/sweeps/joeynmt/trials/*/seed-* --python joeynmt/bin/python

Joey NMT 2.3 has its own environment: python -m venv joeynmt; joeynmt/bin/pip install torch joeynmt importlib_metadata
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any

import yaml

from seq2attn.data.corpus import read_text_pairs
from seq2attn.data.prepared_data import DEV, TRAIN, text_path
from seq2attn.decoders.recurrent import LuongDecoderConfig
from seq2attn.decoders.transformer import TransformerDecoderConfig
from seq2attn.encoders.recurrent import RecurrentEncoderConfig
from seq2attn.encoders.transformer import TransformerConfig
from seq2attn.evaluation.evaluate import EvaluationSet, read_translations
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import sha256_json
from seq2attn.io.tables import format_table
from seq2attn.metrics.significance import paired_scores
from seq2attn.models import ModelConfig
from seq2attn.optim.lr_schedules import InverseSquareRootScheduleConfig
from seq2attn.optim.optimizers import AdamConfig
from seq2attn.search.search_config import BeamConfig
from seq2attn.tokenizers.base import Tokenizer

ATTENTION = {"additive": "bahdanau", "general": "luong"}
"""Joey NMT's names of scores."""
DEV_PAIRS = 50
"""Pairs of its one validation, which writes the checkpoint."""


def main() -> None:
    """Trains Joey NMT like each run, unless it is trained with the same options, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="evaluated runs of seq2attn")
    parser.add_argument("--python", required=True, help="the Python of Joey NMT's environment")
    options = parser.parse_args()
    rows = [row for run in options.runs for row in compare(RunDirectory(run), options.python)]
    print(format_table([["run", "test set", "seq2attn", "Joey NMT", "p"], *rows], markdown=True))


def compare(run: RunDirectory, python: str) -> list[list[str]]:
    """For each test set BLEU of both, and p of sacreBLEU's paired bootstrap."""
    experiment, (source, target) = run.load_config(), run.load_tokenizers()
    folder = run.folder / "joeynmt"
    config, model_dir = folder / "config.yaml", folder / "model"
    update, epoch = last_update(run)
    folder.mkdir(exist_ok=True)
    options = joey_config(experiment, folder, update, sentences_per_batch(write_text(run, folder), update, epoch))
    before = (yaml.safe_load(config.read_text("utf-8")) if config.is_file() else None) or {}
    checkpoint = model_dir / f"{update}.ckpt"
    if {**before, "testing": options["testing"]} != options:
        checkpoint.unlink(missing_ok=True)
    config.write_text(yaml.safe_dump(options, sort_keys=False), "utf-8")
    if not checkpoint.is_file():
        subprocess.run([python, "-m", "joeynmt", "train", str(config), "--skip-test"], check=True)
    rows = []
    for name, corpus in experiment.data.test.items():
        test_set = EvaluationSet.read(name, corpus, experiment.evaluation)
        output = translation_path(folder, test_set, options)
        if not output.is_file():
            command = [python, "-m", "joeynmt", "translate", str(config)]  # its --output-path fails in version 2.3
            text = tokenized(source, test_set.sources)
            done = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE, check=True)
            output.write_text(done.stdout, "utf-8")
        lines = output.read_text("utf-8").split("\n")[:-1]
        joey = [target.decode([target.vocabulary.id(token) for token in line.split()]) for line in lines]
        systems = {"seq2attn": read_translations(run, test_set, [str(run.folder)])[0], "Joey NMT": joey}
        ours, theirs = paired_scores(test_set.metrics, systems, test_set.references, ["bleu"])["BLEU"].values()
        label = "/".join(run.folder.parts[-2:])
        rows.append([label, name, f"{ours.value:.2f}", f"{theirs.value:.2f}", f"{theirs.p_value:.3f}"])
    return rows


def last_update(run: RunDirectory) -> tuple[int, float]:
    """Number of updates and epochs of a training."""
    last = json.loads((run.folder / "metrics.jsonl").read_text("utf-8").split("\n")[-2])
    return last["update"], last["epoch"]


def sentences_per_batch(num_pairs: int, update: int, epoch: float) -> int:
    """Batch size with as many updates per epoch as in a training of `update` updates in `epoch` epochs."""
    return math.ceil(num_pairs * epoch / update)


def write_text(run: RunDirectory, folder: Path) -> int:
    """Write the tokenized text and the joint vocabulary of a run. Returns the number of training pairs."""
    tokenizers = run.load_tokenizers()
    if tokenizers[0].vocabulary != tokenizers[1].vocabulary:
        raise SystemExit(f"{run.folder}: only runs with one tokenizer for both languages can be compared with Joey NMT")
    train, dev = ([*read_text_pairs(text_path(run.folder / part))] for part in (TRAIN, DEV))
    for side, language, tokenizer in zip((0, 1), ("de", "en"), tokenizers, strict=True):
        for part, pairs in (("train", train), ("val50", dev[:DEV_PAIRS])):
            text = tokenized(tokenizer, (pair[side] for pair in pairs))
            (folder / f"{part}.bpe.{language}").write_text(text, "utf-8")
    tokens = tokenizers[0].vocabulary.tokens
    (folder / "vocab.joey.txt").write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    return len(train)


def translation_path(folder: Path, test_set: EvaluationSet, options: dict[str, Any]) -> Path:
    """The file of the translations of this text by Joey NMT, trained and used with these options."""
    key = sha256_json([asdict(test_set.digests), options])[:8]
    return folder / f"{test_set.name}-{key}.txt"


def tokenized(tokenizer: Tokenizer, lines: Iterable[str]) -> str:
    """Lines of tokens."""
    return "".join(" ".join(tokenizer.convert_ids_to_tokens(tokenizer.encode(line))) + "\n" for line in lines)


def joey_config(experiment: ExperimentConfig, folder: Path, updates: int, batch_size: int) -> dict[str, Any]:
    """The config for the same training, with batches of `batch_size` sentences."""
    training, search = experiment.training, experiment.search
    optimizer, schedule = training.optimizer, training.lr_schedule
    if not (
        isinstance(optimizer, AdamConfig)
        and isinstance(schedule, InverseSquareRootScheduleConfig)
        and isinstance(search, BeamConfig)
        and search.lengths.length_penalty == "gnmt"
    ):
        raise SystemExit(
            "Joey NMT is compared with Adam, `inverse-sqrt`, and beam search with the penalty `gnmt` alone"
        )
    template = Template(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    files = {"data": folder, "save": folder / "model"}
    common = yaml.safe_load(
        template.substitute(files, tokens=batch_size, updates=updates, beam=search.beam_size, batch=64, most=100)
    )
    changes = {
        "random_seed": training.seed,
        "testing": {"beam_alpha": search.lengths.alpha},
        "training": {
            "adam_betas": list(optimizer.betas),
            "learning_rate": optimizer.lr,
            "learning_rate_warmup": schedule.warmup_updates,
            "clip_grad_norm": training.max_grad_norm,
            "label_smoothing": training.label_smoothing,
            "batch_type": "sentence",
        },
        "model": model_options(experiment.model),
    }
    return common | {key: common[key] | new if isinstance(new, dict) else new for key, new in changes.items()}


def model_options(model: ModelConfig) -> dict[str, Any]:
    """The same architecture in its config. Joey NMT has one width of the encoder for each direction."""
    embeddings: dict[str, Any] = {"embedding_dim": model.embeddings.dim, "scale": model.embeddings.scaled}
    match model.encoder, model.decoder:
        case TransformerConfig() as encoder, TransformerDecoderConfig() as decoder:
            tied = model.embeddings.tie == "all"
            return {
                "tied_embeddings": tied,
                "tied_softmax": tied,
                "encoder": transformer_options(encoder, embeddings),
                "decoder": transformer_options(decoder, embeddings),
            }
        case RecurrentEncoderConfig() as encoder, LuongDecoderConfig() as decoder:
            embeddings["dropout"] = model.embeddings.dropout
            recurrent = {"type": "recurrent", "embeddings": embeddings}
            return {
                "encoder": recurrent
                | {
                    "rnn_type": encoder.kind,
                    "hidden_size": encoder.dim // 2,
                    "bidirectional": encoder.bidirectional,
                    "num_layers": encoder.layers,
                    "dropout": encoder.dropout,
                },
                "decoder": recurrent
                | {
                    "rnn_type": decoder.cell,
                    "hidden_size": decoder.dim,
                    "num_layers": decoder.layers,
                    "dropout": decoder.dropout,
                    "hidden_dropout": decoder.dropout,
                    "input_feeding": decoder.input_feeding,
                    "init_hidden": "bridge",
                    "attention": ATTENTION[decoder.attention.score.kind],
                },
            }
    raise SystemExit("only Transformers, and Luong's decoder with GRU or LSTM, can be compared with Joey NMT")


def transformer_options(config: TransformerConfig, embeddings: dict[str, Any]) -> dict[str, Any]:
    """Options of a Transformer encoder or decoder."""
    return {
        "type": "transformer",
        "num_layers": config.layers,
        "num_heads": config.heads,
        "embeddings": {**embeddings, "dropout": config.dropout},
        "hidden_size": embeddings["embedding_dim"],
        "ff_size": config.ffn_dim,
        "dropout": config.dropout,
        "layer_norm": config.norm_order,
    }


if __name__ == "__main__":
    main()
