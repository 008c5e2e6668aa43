"""An imported T5 model has the logits and the translations of the original in `transformers`."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModelForSeq2SeqLM, T5Tokenizer

import seq2attn
from seq2attn.data.collate import collate_source
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.import_run import import_model
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.support.marian import SOURCE
from tests.support.marks import slow_but
from tests.support.t5 import NUM_UNUSED, PREFIX, TASKS, make_t5

MODELS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "1.0 with a task": ({"task_specific_params": TASKS}, {"target_language": "en"}, PREFIX),
    "1.0 with a prefix": ({"task_specific_params": TASKS}, {"source_prefix": "the red boat"}, "the red boat "),
    "1.0 that begins with a piece": ({"decoder_start_token_id": 5}, {}, ""),
    "1.1": ({"gated": True, "feed_forward_proj": "gated-silu"}, {}, ""),
    "1.1, saved by transformers 5": ({"gated": True, "scale_decoder_outputs": False}, {}, ""),
    "1.1, tied by transformers 5": ({"gated": True, "tied": True}, {}, ""),
    "mT5": ({"gated": True, "multilingual": True}, {}, ""),
}
QUICK = ("1.0 with a task",)
LENGTHS = LengthsConfig(alpha=0.8, max_length=18, max_length_ratio=None, source_language="de")


@pytest.mark.parametrize("name", slow_but(QUICK, MODELS))
def test_logits_and_translations_are_those_of_the_original(name: str, tmp_path: Path) -> None:
    made, options, prefix = MODELS[name]
    make_t5(tmp_path / "hf", **made)
    if "scale_decoder_outputs" in made:  # it says that they are tied, and they are not
        config = json.loads((tmp_path / "hf" / "config.json").read_text())
        (tmp_path / "hf" / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    (tmp_path / "lines").write_text("\n".join(SOURCE), encoding="utf-8")
    report = import_model(tmp_path / "hf", tmp_path / "run", ImportOptions(**options), verify_with=tmp_path / "lines")
    assert report is not None and [search.token_agreement for search in report.searches] == [1, 1]

    theirs: Any = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf", dtype=torch.float32).eval()
    tokenizer = T5Tokenizer.from_pretrained(tmp_path / "hf")
    inputs = tokenizer([prefix + line for line in SOURCE], return_tensors="pt", padding=True)
    translator = seq2attn.load(tmp_path / "run")
    assert (translator.search == BeamConfig(beam_size=3, lengths=LENGTHS)) == ("target_language" in options)
    layers = [*translator.model.encoder.modules(), *translator.model.decoder.modules()]
    assert {one.p for one in layers if isinstance(one, torch.nn.Dropout)} == {theirs.config.dropout_rate}
    names = tokenizer.convert_ids_to_tokens(range(len(tokenizer))) + [
        f"<unused{len(tokenizer) + i}>" for i in range(NUM_UNUSED)
    ]
    output = theirs.generate(**inputs, max_length=20, forced_eos_token_id=1, bad_words_ids=[[0]])
    greedy = translator.translate(list(SOURCE), GreedyConfig(lengths=LENGTHS))
    for ours, ids in zip(greedy, output.tolist(), strict=True):
        assert list(ours.tokens) == [names[id] for id in ids[1:] if id > 1]

    source, sequences = collate_source([translator.source.encode(line) for line in SOURCE])
    tokens = translator.target.vocabulary.tokens[EOS:]
    columns = torch.tensor([names.index(token) for token in tokens])
    labels = torch.arange(EOS + 1, EOS + len(tokens), 4).repeat(len(SOURCE), 1)
    start = theirs.config.decoder_start_token_id
    expected = theirs(**inputs, decoder_input_ids=F.pad(columns[labels - EOS], (1, 0), value=start)).logits
    hidden = translator.model(source, sequences, F.pad(labels, (1, 0), value=BOS)).hidden
    logits = translator.model.output_projection(hidden)
    torch.testing.assert_close(logits[..., EOS:], expected[..., columns], rtol=1e-5, atol=1e-5)
    assert translator.source.decode(translator.source.encode(SOURCE[0])) == SOURCE[0]  # without the prefix
