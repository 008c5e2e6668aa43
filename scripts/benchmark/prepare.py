"""Our run directories with the pieces that everybody has, ready for `seq2attn train`."""

from __future__ import annotations

from benchmark.systems import Ours
from benchmark.training import say


def prepare_ours(ours: Ours, model: str, pieces: bytes, *, timed: bool) -> None:
    """Put the tokeniser and the ids where `seq2attn train` finds them: in the run that is timed, or that is fitted."""
    from seq2attn.config.load import load
    from seq2attn.data.prepare import prepare
    from seq2attn.experiment import Experiment
    from seq2attn.text.subwords import BPEConfig, SubwordTokenizer

    experiment = load(ours.experiment(model), Experiment, list(ours.overrides))
    config = experiment.text.joint
    assert isinstance(config, BPEConfig)
    folder = ours.timed(model) if timed else ours.run(model)
    tokenizer = SubwordTokenizer(config, pieces)
    for side in ("source", "target"):
        if not (folder / side).is_dir():
            tokenizer.save(folder / side)
    prepare(experiment.data, experiment.text, folder, say, keep_tokenizers=True)
