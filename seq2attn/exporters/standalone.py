"""Files of an export that is used without this package: both tokenizers, and a program.

source.spm target.spm                            SentencePiece models with a normalizer
source_vocabulary.json target_vocabulary.json    tokens by id; of CTranslate2, which writes its own, maybe one for both
source/ target/                                  tokenizers of other kinds, for this package
translate.py                                     translation by the library of the format and SentencePiece
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import filterfalse
from pathlib import Path
from string import Template

from seq2attn.experiment.run_directory import LoadedRun
from seq2attn.exporters.tokenizer_export import EXPORTED_KINDS, moses_code, sentencepiece_model
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.ctranslate2_engine import UNLIMITED_PATIENCE
from seq2attn.inference.engines.source_limit import max_source_length
from seq2attn.io.files import read_bytes, write_bytes, write_json
from seq2attn.pretrained.marian import SOURCE_MODEL, TARGET_MODEL
from seq2attn.search.search_config import EXTRA_TOKENS, BeamConfig
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import is_blank
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizer, load_processor
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK

PROGRAM = "translate.py"
PACKAGES = {"ctranslate2": ["ctranslate2"], "onnx": ["onnxruntime"], "huggingface": ["transformers", "torch"]}
RUN_SEARCH = "It has the search of the run."
GREEDY_SEARCH = "It translates as `seq2attn translate --greedy`."
PENALTIES = {"none": "1", "average": "len(one[0]) ** ALPHA", "gnmt": "((5 + len(one[0])) / 6) ** ALPHA"}
INSTRUCTIONS = """\
`{program}` in this folder needs no seq2attn, only {named}. {search}

```bash
pip install {packages}
python {program} < input.txt > output.txt
```

"""


def write_standalone(engine: Engine, run: LoadedRun, folder: Path, lines: Sequence[str]) -> str:
    """Write both tokenizers and, if SentencePiece gives the same ids for `lines`, the program for the engine's library.

    Returns its instructions for the model card; none without a program.
    """
    name, tokenizers, search = engine.name, run.tokenizers, run.experiment.search
    source, target = tokenizers
    kinds = {config.kind for config in run.experiment.tokenizer.per_side}
    if not kinds <= {*EXPORTED_KINDS} or source.tags:
        tokenizers.save(folder)
        return ""
    for tokenizer, file in zip(tokenizers, (SOURCE_MODEL, TARGET_MODEL), strict=True):
        write_bytes(folder / file, sentencepiece_model(tokenizer))
    if name == "onnx":
        for side, tokenizer in tokenizers._asdict().items():
            write_json(folder / f"{side}_vocabulary.json", list(tokenizer.vocabulary.tokens))
    is_greedy = name == "onnx"
    is_limited = search.lengths.min_length or search.lengths.min_length_ratio or search.no_repeat_ngram_size
    has_other_search = search.mbr or (is_limited if is_greedy else engine.unsupported(search))
    if target.line_prefix or has_other_search or not _has_same_ids(source, folder / SOURCE_MODEL, lines):
        return ""
    values = _search_values(run, engine.max_source_length)
    return write_program(name, source, folder, values, GREEDY_SEARCH if is_greedy else RUN_SEARCH)


def write_program(name: str, source: Tokenizer, folder: Path, values: Mapping[str, object], search: str) -> str:
    """Write the program of an engine with these values; returns its instructions, with a sentence on its search."""
    needed, imports, line = moses_code(source)
    blank_lines = _template("blank_lines.txt")
    program = Template(_template(f"{name}_program.txt"))
    code = program.substitute(values, imports=imports, line=line, blank_lines=blank_lines)
    write_bytes(folder / PROGRAM, code.encode())
    packages = [*PACKAGES[name], *needed]
    named = f"{', '.join(packages[:-1])} and {packages[-1]}"
    return INSTRUCTIONS.format(program=PROGRAM, named=named, packages=" ".join(packages), search=search)


def _template(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _has_same_ids(source: Tokenizer, model: Path, lines: Sequence[str]) -> bool:
    """True if SentencePiece alone gives the ids of the tokenizer for each line."""
    processor = load_processor(read_bytes(model, ""), model)
    normalize = source.normalize_punctuation if isinstance(source, SentencePieceTokenizer) else str
    pieces = ((line, processor.encode(normalize(line), out_type=str)) for line in filterfalse(is_blank, lines))
    return all([*source.line_prefix, *map(source.vocabulary.id, one)] == source.encode(line) for line, one in pieces)


def _search_values(run: LoadedRun, engine_limit: int | None) -> dict[str, object]:
    """Limits and search of a run, as literals of a program."""
    source, search, lengths = run.tokenizers.source, run.experiment.search, run.experiment.search.lengths
    beam_size, patience = 1, 1.0
    if isinstance(search, BeamConfig) and search.beam_size > 1:
        beam_size, patience = search.beam_size, search.patience or UNLIMITED_PATIENCE
    return {
        "prefix": source.convert_ids_to_tokens(source.line_prefix),
        "max_source": min(max_source_length(run.experiment), engine_limit or sys.maxsize),
        "max_length": lengths.max_length,
        "max_ratio": lengths.max_ratio or lengths.max_length,
        "extra": EXTRA_TOKENS,
        "beam_size": beam_size,
        "patience": patience,
        "alpha": lengths.alpha,
        "penalty": PENALTIES[lengths.length_penalty],
        "eos": SPECIAL_TOKENS[EOS],
        "ids": f"{PAD}, {UNK}, {BOS}, {EOS}",
    }
