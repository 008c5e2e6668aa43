"""Hugging Face's `transformers` as an export target: Marian for post-norm Transformers, Pegasus for pre-norm ones.

Both use the table of positions in the file, whatever its formula. The ids of tokens stay as they are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from seq2attn.attention.scores import MultiHeadScoreConfig
from seq2attn.config.base import FieldError
from seq2attn.decoders.transformer import TransformerDecoderConfig
from seq2attn.encoders.transformer import TransformerConfig
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import LoadedRun, RunDirectory
from seq2attn.exporters.export_target import ExportTarget, no_option, unsupported_parts
from seq2attn.exporters.standalone import write_program
from seq2attn.exporters.tokenizer_export import EXPORTED_KINDS, check_exported_tokenizer, export_tokenizers
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.source_limit import max_source_length
from seq2attn.io.files import write_json
from seq2attn.io.hf_folder import CONFIG_FILE, WEIGHTS_FILE
from seq2attn.io.weights import unique_state_dict, write_safetensors
from seq2attn.models import ModelConfig, Seq2Seq
from seq2attn.pretrained.bart import BART_NAMES, POSITIONS, SIDE_FIELDS
from seq2attn.pretrained.family import GENERATION_FILE
from seq2attn.pretrained.hf_weights import OUR_BIAS, OUR_OUTPUT, OUR_SOURCE, OUR_TARGET
from seq2attn.pretrained.transformers_engine import TransformersEngine
from seq2attn.search.search_config import BeamConfig, SampleConfig, SearchConfig
from seq2attn.tokenizers.hf_tokenizer import HFTokenizerConfig
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizerConfig
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD

NAME = "huggingface"
MARIAN_NOTE = """\
`save_pretrained` of a Marian model leaves out its tables of positions, and others are computed when that is loaded:
set `model._keys_to_ignore_on_save = None` before.
"""
SEARCH = "Its search is that of `generation_config.json`."
MIN_POSITIONS = 1024
"""Least number of rows of a table of positions."""
LAYER_OPTIONS = {
    "norm_type": ("layernorm",),
    "position_encoding": ("sinusoidal", "learned"),
    "activation": ("relu", "gelu", "silu"),
    "embedding_norm": (False,),
}
"""Options of encoder and decoder, with the values that both architectures have."""
TOKEN_IDS = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": BOS, "forced_eos_token_id": EOS}
"""Special ids, in both files of settings."""


class HuggingFaceTarget(ExportTarget):
    """Export of Transformers for `AutoModelForSeq2SeqLM` and `AutoTokenizer`; no engine to translate with."""

    name = NAME
    hub_library = "transformers"
    dtypes = ("float32",)

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """Options of model, tokenizers and search that `transformers` does not have, with their config keys."""
        try:
            import transformers  # noqa: F401
        except ImportError:
            raise UserError("this export needs transformers: pip install 'seq2attn[pretrained]'") from None
        return [
            *unsupported_parts(self.name, experiment.model),
            *_unsupported_layers(experiment.model),
            *_unsupported_text(experiment),
            *_unsupported_search(experiment.search),
        ]

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Write config, weights, tokenizers and search settings."""
        loaded = run.load()
        experiment = loaded.experiment
        architecture = _architecture(experiment, [*map(len, loaded.tokenizers.vocabularies)])
        write_json(folder / CONFIG_FILE, architecture)
        write_json(folder / GENERATION_FILE, _generation(experiment.search))
        weights = _weights(experiment.model, loaded.model, architecture["max_position_embeddings"])
        write_safetensors(weights, folder / WEIGHTS_FILE, {"format": "pt"})
        export_tokenizers(experiment, loaded.tokenizers, folder, max_source_length(experiment) + 1)

    def load(self, run: RunDirectory, folder: Path) -> TransformersEngine:
        """The exported model as `transformers` loads it, without its search settings."""
        from transformers import AutoModelForSeq2SeqLM, GenerationConfig
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        model.generation_config = GenerationConfig()
        source, target = (range(len(vocabulary)) for vocabulary in run.load_tokenizers().vocabularies)
        longest = model.config.max_position_embeddings - 1
        return TransformersEngine(model, (source, target), longest, renormalize=False)

    def write_program(self, engine: Engine, run: LoadedRun, folder: Path, lines: Sequence[str]) -> str:
        """Check the tokenizer, which `export` has written, write the program, and return its instructions."""
        source = run.tokenizers.source
        check_exported_tokenizer(source, folder, lines)
        tag = source.config.tag if isinstance(source.config, SentencePieceTokenizerConfig) else None
        values = {"tag": f"{tag + ' '!r} + " if tag else ""}
        return write_program(self.name, source, folder, values, SEARCH)

    def usage(self, run: RunDirectory, folder: Path, options: Sequence[str]) -> str:
        """A note on saving a Marian model again. This package has no engine for the export."""
        is_marian = run.load_config().model.encoder.norm_order == "post"  # type: ignore[union-attr]
        return MARIAN_NOTE if is_marian else ""


def _unsupported_layers(model: ModelConfig) -> list[FieldError]:
    parts = {"encoder": model.encoder, "decoder": model.decoder}
    layers = {side: part for side, part in parts.items() if isinstance(part, TransformerConfig)}
    dim, mistakes = model.embeddings.dim, list[FieldError]()
    for side, part in layers.items():
        for name, known in LAYER_OPTIONS.items():
            if (value := getattr(part, name)) not in known:
                message = f"`{name}: {value}`, only {', '.join(map('`{}`'.format, known))}"
                mistakes.append(no_option(NAME, f"{side}.{name}", message))
        attentions: dict[str, Any] = {side: part}
        if isinstance(part, TransformerDecoderConfig) and isinstance(part.attention.score, MultiHeadScoreConfig):
            attentions["decoder.attention.score"] = part.attention.score
        for key, heads in attentions.items():
            usual = {"kv_heads": (None, heads.heads), "head_dim": (None, dim // heads.heads), "bias": (True,)}
            mistakes += [
                no_option(NAME, f"{key}.{name}", f"attention with `{name}: {getattr(heads, name)}`; leave this out")
                for name, values in usual.items()
                if getattr(heads, name) not in values
            ]
    if len(layers) == len(parts):
        for name in ("norm_order", "activation"):
            encoder, decoder = (getattr(part, name) for part in layers.values())
            if encoder != decoder:
                message = f"`{name}` for the decoder that differs from the encoder's, `{encoder}`"
                mistakes.append(no_option(NAME, f"decoder.{name}", message))
        if layers["encoder"].norm_order == "pre" and model.embeddings.tie != "all":
            message = f"pre-norm Transformer (Pegasus) with `tie: {model.embeddings.tie}`, only `all`"
            mistakes.append(no_option(NAME, "embeddings.tie", message))
    return mistakes


def _unsupported_text(experiment: ExperimentConfig) -> list[FieldError]:
    text = experiment.tokenizer
    sides = {"joint": text.joint} if text.joint else {"source": text.source, "target": text.target}
    known = ", ".join(EXPORTED_KINDS)
    mistakes = [
        FieldError(f"tokenizer.{side}.kind", f"{NAME} has no tokenizer `{config.kind}`, only {known}")
        for side, config in sides.items()
        if config is not None and config.kind not in EXPORTED_KINDS
    ]
    for side, tokenizer in sides.items():
        tag = tokenizer.tag if isinstance(tokenizer, SentencePieceTokenizerConfig | HFTokenizerConfig) else None
        if tag and (side == "target" or not tag.startswith(">>")):
            message = f"{NAME} has no tokenizer with the tag `{tag}`, only with Marian's, `>>...<<`, of the source"
            mistakes.append(FieldError(f"tokenizer.{side}.tag", message))
    if experiment.data.tags:
        mistakes.append(FieldError("data.train", f"{NAME} has no tokenizer with a `tag`"))
    return mistakes


def _unsupported_search(search: SearchConfig) -> list[FieldError]:
    lengths = search.lengths
    is_unsupported = {
        "kind": isinstance(search, SampleConfig),
        "mbr": search.mbr,
        "coverage_penalty": search.coverage_penalty > 0,
        "num_beam_groups": isinstance(search, BeamConfig) and search.num_beam_groups > 1,
        "lengths.length_penalty": lengths.length_penalty == "gnmt",
        "lengths.min_length": lengths.min_length > 0,
        "lengths.min_length_ratio": lengths.min_length_ratio > 0,
    }
    return [
        FieldError(f"search.{key}", f"{NAME} has no search of this kind; change it in the config of the run")
        for key, is_mistake in is_unsupported.items()
        if is_mistake
    ]


def _architecture(experiment: ExperimentConfig, sizes: Sequence[int]) -> dict[str, Any]:
    """The content of `config.json`, for vocabularies of these sizes."""
    model = experiment.model
    encoder, decoder = cast("TransformerConfig", model.encoder), cast("TransformerDecoderConfig", model.decoder)
    content: dict[str, Any] = {
        "d_model": model.embeddings.dim,
        "scale_embedding": model.embeddings.scaled,
        "vocab_size": sizes[0],
        "activation_function": encoder.activation,
        "dropout": encoder.dropout,
        "activation_dropout": encoder.dropout if encoder.activation_dropout is None else encoder.activation_dropout,
        "attention_dropout": encoder.attention_dropout,
        "tie_word_embeddings": model.embeddings.tie != "none",
        "max_position_embeddings": max(
            MIN_POSITIONS, max_source_length(experiment) + 1, experiment.search.lengths.max_length + 2
        ),
        **TOKEN_IDS,
        "is_encoder_decoder": True,
    }
    for side, part in (("encoder", encoder), ("decoder", decoder)):
        content |= {f"{side}_{theirs}": getattr(part, ours) for ours, theirs in SIDE_FIELDS.items()}
    if encoder.norm_order == "pre":
        return {"model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"], **content}
    is_shared = model.embeddings.tie == "all"
    content |= {"share_encoder_decoder_embeddings": is_shared, "decoder_vocab_size": sizes[1]}
    content["wavelengths"] = encoder.wavelengths, decoder.wavelengths  # for `import`
    return {"model_type": "marian", "architectures": ["MarianMTModel"], **content}


def _generation(search: SearchConfig) -> dict[str, Any]:
    """The content of `generation_config.json`. Its lengths include BOS and EOS."""
    lengths = search.lengths
    content: dict[str, Any] = {
        **TOKEN_IDS,
        "suppress_tokens": [PAD, BOS],
        "max_length": lengths.max_length + 2,
    }
    if search.no_repeat_ngram_size is not None:
        content["no_repeat_ngram_size"] = search.no_repeat_ngram_size
    if isinstance(search, BeamConfig) and search.beam_size > 1:
        early = True if search.patience == 1 else "never" if search.patience is None else False
        penalty = lengths.alpha if lengths.length_penalty == "average" else 0.0
        content |= {"num_beams": search.beam_size, "length_penalty": penalty, "early_stopping": early}
    return content


def _weights(config: ModelConfig, model: Seq2Seq, num_positions: int) -> dict[str, Tensor]:
    """The tensors of the file by their names there; tied ones once."""
    names = BART_NAMES
    source = names.shared if config.embeddings.tie == "all" else names.source
    tables = {OUR_SOURCE: source, OUR_TARGET: names.target, OUR_OUTPUT: names.output}
    weights = {}
    for name, tensor in unique_state_dict(model).items():
        if name == OUR_BIAS:
            weights[names.bias] = tensor[None]
        elif "position_encoding" not in name:
            weights[tables.get(name) or names.layer(name)] = tensor
    for name, part in zip(POSITIONS, (model.encoder, model.decoder), strict=True):
        weights[name] = part.position_encoding(torch.arange(num_positions)).detach()  # type: ignore[operator]
    return {name: tensor.contiguous() for name, tensor in weights.items()}
