"""`scripts/speedrun_peers.py`: other toolkits are trained on the text of a run and translate by our search."""

import json
import sys

import pytest
import speedrun_peers
import torch
from benchmark.programs.batches import BOS, EOS, pad
from speedrun_peers import TOOLKITS, Peer

from seq2attn.search.search_config import BeamConfig
from seq2attn.search.translate_ids import translate_ids
from tests.support.commands import invoke_in, toy_pairs, write_toy


@pytest.mark.parametrize("toolkit", TOOLKITS)
def test_scores_of_the_search_are_those_of_forced_decoding(toolkit):
    peer = Peer(toolkit, 40)
    peer.model.eval()
    sources = [[5, 6, 7, 8], [9], [10, 11]]
    for source, hypotheses in zip(
        sources, translate_ids(peer, sources, BeamConfig(beam_size=3), budget=100), strict=True
    ):
        assert len(hypotheses) == 3
        for hypothesis in hypotheses:
            labels = torch.tensor([*hypothesis.tokens, EOS])
            inputs = pad([[BOS, *hypothesis.tokens]])
            with torch.no_grad():
                log_probs = torch.log_softmax(peer.logits(pad([[*source, EOS]]), inputs)[0], -1)
            assert float(log_probs.gather(1, labels[:, None]).sum()) == pytest.approx(hypothesis.log_prob, abs=1e-3)


@pytest.mark.parametrize(("toolkit", "options"), zip(TOOLKITS, [["--bfloat16"], []], strict=True))
def test_each_of_the_minutes_has_a_record(toolkit, options, tmp_path, capsys, monkeypatch):
    shortest = {name: sorted(pairs, key=lambda pair: len(pair[0]))[:3] for name, pairs in toy_pairs().items()}
    write_toy(tmp_path, pairs={**shortest, "train": toy_pairs()["train"]})
    invoke_in(tmp_path, "train", "toy.yaml", "--set", "training.max_duration=[1 update]")
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    arguments = ["speedrun_peers.py", "runs/toy", toolkit, "--minutes", "0.004", "0.002", *options]
    monkeypatch.setattr(sys, "argv", arguments)
    seen, logits = set(), Peer.logits

    def observed(peer, source, inputs):
        seen.add((peer.model.training, torch.is_autocast_enabled("cpu")))
        return logits(peer, source, inputs)

    monkeypatch.setattr(Peer, "logits", observed)
    speedrun_peers.main()
    assert seen == {(True, bool(options)), (False, False)}
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["minutes"] for record in records] == [0.002, 0.004]
    assert 0 < records[0]["updates"] < records[1]["updates"]
    assert all({"dev_bleu", "test_bleu", "signature"} <= record.keys() for record in records)
