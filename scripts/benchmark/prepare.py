"""Our run directories with the common BPE, prepared for `seq2attn train`."""

from __future__ import annotations

from benchmark.setting import UnavailableError
from benchmark.systems import Ours
from benchmark.text import num_target_tokens, prepare_text
from benchmark.training import log


def prepare_all(ours: Ours, models: tuple[str, ...], *, timed: bool) -> None:
    """Prepare the text of all systems, and our data in the runs that are timed, or fitted.

    Raises UnavailableError for a missing corpus, or another number of target tokens than in other systems.
    """
    from seq2attn.config.load import load
    from seq2attn.data.prepare import prepare
    from seq2attn.experiment.experiment_config import ExperimentConfig
    from seq2attn.tokenizers.subwords import BPETokenizerConfig

    for model in models:
        experiment = load(ours.experiment(model), ExperimentConfig, list(ours.overrides))
        config = experiment.tokenizer.joint
        assert isinstance(config, BPETokenizerConfig)
        prepare_text(ours.setting, config)
        folder = ours.timed(model) if timed else ours.run(model)
        is_trained = (folder / "checkpoints").is_dir()
        prepared = prepare(experiment.data, experiment.tokenizer, folder, log, keep_tokenizers=is_trained)
        corpus = prepared.train.epoch_corpus(0, 0)
        num_tokens = int(corpus.lengths[:, 1].sum()) + len(corpus)  # with EOS
        expected = num_target_tokens(ours.setting)
        if num_tokens != expected:
            raise UnavailableError(f"{folder}: {num_tokens:,} target tokens per epoch; others have {expected:,}")
