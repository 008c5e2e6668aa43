"""Our run directories with the pieces that everybody has, ready for `seq2attn train`."""

from __future__ import annotations

from benchmark.setting import UnavailableError
from benchmark.systems import Ours
from benchmark.text import lengths, prepare_text
from benchmark.training import say


def prepare_all(ours: Ours, models: tuple[str, ...], *, timed: bool) -> None:
    """Everybody's text, and ours where `seq2attn train` finds it: in the runs that are timed, or that are fitted.

    Raises UnavailableError when the corpus is missing, or when ours would count other tokens than the others.
    """
    from seq2attn.config.load import load
    from seq2attn.data.prepare import prepare
    from seq2attn.experiment import ExperimentConfig
    from seq2attn.tokenizers.subwords import BPETokenizerConfig, SubwordTokenizer

    for model in models:
        experiment = load(ours.experiment(model), ExperimentConfig, list(ours.overrides))
        config = experiment.tokenizer.joint
        assert isinstance(config, BPETokenizerConfig)
        tokenizer = SubwordTokenizer(config, prepare_text(ours.setting, config.vocab_size))
        for folder in [ours.timed(model, way) for way in ours.ways(model)] if timed else [ours.run(model)]:
            for side in ("source", "target"):
                if not (folder / side).is_dir():
                    tokenizer.save(folder / side)
            prepared = prepare(experiment.data, experiment.tokenizer, folder, say, keep_tokenizers=True)
            corpus = prepared.train.epoch_corpus(0, 0)
            found = int(corpus.lengths[:, 1].sum()) + len(corpus)  # the ends
            wanted = sum(lengths(ours.setting).target)
            if found != wanted:
                raise UnavailableError(f"{folder}: {found:,} target tokens an epoch, where the others have {wanted:,}")
