"""Hints for unknown names: similar names, and the seq2attn keys for those of other toolkits.

Sources of the names: configs and options of Joey NMT, OpenNMT-py, fairseq, Marian and Hugging Face.
"""

import difflib
import unicodedata
from collections.abc import Collection, Iterable
from pathlib import Path

HINTS = {
    "`training.optimizer.lr`": "learning_rate lr lrate",
    "`training.optimizer`, such as `optimizer: {kind: adam, lr: 0.001}`": "optim optimizer_type",
    "`training.lr_schedule`": "scheduling scheduler lr_scheduler lr_scheduler_type decay_method lr_decay",
    "`training.lr_schedule.warmup_updates`": (
        "warmup_steps warmup_updates lr_warmup learning_rate_warmup num_warmup_steps"
    ),
    "`training.batch.tokens`, which counts tokens and padding": (
        "batch_size max_tokens batch_type per_device_train_batch_size train_batch_size mini_batch tokens_per_batch"
    ),
    "`training.batch.gradient_accumulation`": (
        "update_freq accum_count batch_multiplier gradient_accumulation_steps accumulate_grad_batches optimizer_delay"
    ),
    "`training.max_duration`, such as `max_duration: 20 epochs`": (
        "epochs max_epochs max_epoch num_epochs n_epochs num_train_epochs after_epochs"
    ),
    "`training.max_duration`, such as `max_duration: 5000 updates`": (
        "max_steps train_steps max_update max_updates num_train_steps updates steps after_batches"
    ),
    "`training.init_from.run_dir`, the run to begin with": (
        "train_from load_model finetune_from_model pretrained_model restore_file init_checkpoint initialize_from"
    ),
    "`training.frozen`": "freeze freeze_params freeze_encoder freeze_decoder fixed_param_names",
    "`training.max_grad_norm`": "clip_norm clip_grad_norm max_grad_norm gradient_clip_val",
    "`training.validation.every`": (
        "validation_freq validate_interval valid_steps valid_freq eval_steps eval_interval logging_valid_freq"
    ),
    "`training.validation.metric`": "eval_metric early_stopping_metric metric_for_best_model valid_metrics",
    "`training.validation.patience`": "early_stopping early_stopping_patience",
    "`training.checkpoints.keep_last`": "keep_checkpoint keep_last_ckpts keep_last_epochs save_total_limit",
    "`training.checkpoints.keep_best`": "keep_best_ckpts keep_best_checkpoints",
    "`training.report_every`": "logging_freq logging_steps log_interval disp_freq",
    "`training.device`": "use_cuda cuda gpu gpus gpu_ranks no_cuda accelerator",
    "`training.precision`": "fp16 bf16 amp mixed_precision",
    "`training.seed`": "random_seed manual_seed",
    "`run_dir`": "save_dir model_dir output_dir save_model",
    "`search.beam_size`": "beam beam_size num_beams beam_width",
    "`search.lengths.alpha`": "beam_alpha length_penalty lenpen",
    "`search.lengths.max_length`": "max_output_length max_decode_length max_new_tokens max_len",
    "`data.filters.max_length`": "max_sent_length max_source_length max_target_length src_seq_length tgt_seq_length",
    "`tokenizer`, such as `tokenizer: {joint: {kind: bpe, vocab_size: 8000}}`": (
        "sentencepiece spm bpe subword subwords tokenizer tokenizers tokenizer_type bpe_codes codes level"
    ),
    "`tokenizer.joint.vocab_size`, or `tokenizer.source.vocab_size` and `tokenizer.target.vocab_size`": (
        "vocab_size vocabulary_size voc_limit src_vocab_size tgt_vocab_size"
    ),
    "`source`": "src source_file src_file path_src",
    "`target`": "trg tgt target_file tgt_file trg_file path_tgt",
    "`data.dev`": "valid validation dev_data valid_data",
    "`data.train`": "training_data train_data trainpref train_set",
    "`model.embeddings.dim`": "embedding_dim embed_dim emb_size emb_dim word_vec_size",
    "`model.embeddings.dim` for Transformers, `dim` of encoder and decoder for others": (
        "hidden_size hidden_dim d_model model_dim rnn_size hidden encoder_embed_dim dim_model"
    ),
    "`layers` of `model.encoder` and `model.decoder`": (
        "num_layers n_layers nlayers enc_layers dec_layers encoder_layers decoder_layers"
    ),
    "`heads` of `model.encoder` and `model.decoder`": (
        "num_heads n_heads nhead n_head attention_heads num_attention_heads encoder_attention_heads"
    ),
    "`ffn_dim` of `model.encoder` and `model.decoder`": (
        "ff_size ffn_dim d_ff dim_feedforward feedforward transformer_ff intermediate_size encoder_ffn_dim"
    ),
    "`model.embeddings.tie`": (
        "tied_embeddings tied_softmax share_embeddings share_all_embeddings share_decoder_embeddings"
    ),
    "`kind`": "type rnn_type cell_type name class_name _target_",
}
"""Keys of seq2attn, with the names of the same setting in other toolkits."""

OUR_KEYS = {name: key for key, names in HINTS.items() for name in names.split()}
"""Keys of seq2attn by the names in other toolkits, in lower case with underscores."""


def look_alike(text: str) -> str:
    """The end of an error message about the first character that only looks like one of YAML's; empty if none does.

    Such are no-break spaces, of web pages, and full-width spaces, colons and commas, of Chinese and Japanese keyboards.
    """
    for character in text:
        if not character.isascii() and (meant := unicodedata.normalize("NFKC", character)) in [*" :,-#'\"[]{}"]:
            name = unicodedata.name(character, "").lower()
            return f"; it has U+{ord(character):04X} ({name}) in the place of {meant!r}"
    return ""


def suggest(name: str, names: Collection[str]) -> str:
    """The end of an error message about `name`: the most similar of the known names; empty if none is similar."""
    similar = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean `{similar[0]}`?" if similar else ""


def suggest_file(name: str, names: Iterable[str]) -> str:
    """`suggest` for a file: the part of the name before the suffix has to be similar, too."""
    similar = {other for other in names if difflib.get_close_matches(Path(name).stem, [Path(other).stem])}
    return suggest(name, similar)


def suggest_or_list(name: str, names: Iterable[str]) -> str:
    """`suggest`, or the list of all known names if none is similar."""
    names = list(names)
    return suggest(name, names) or (f"; known: {', '.join(names)}" if names else "")
