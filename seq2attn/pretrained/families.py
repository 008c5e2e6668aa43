"""The families of models that can be imported."""

from __future__ import annotations

from pathlib import Path

from seq2attn.errors import DataError
from seq2attn.io.files import FILE_HINT, MANIFEST, read_object
from seq2attn.io.hf_folder import CONFIG_FILE, check_files
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.bart import Bart
from seq2attn.pretrained.family import Family
from seq2attn.pretrained.marian import Marian
from seq2attn.pretrained.marian_files import MarianFiles, find_marian_files
from seq2attn.pretrained.multilingual import M2M100, MBart
from seq2attn.pretrained.pegasus import Pegasus
from seq2attn.pretrained.t5 import MT5, T5

FAMILIES: tuple[type[Family], ...] = (Marian, M2M100, MBart, Bart, Pegasus, T5, MT5)


def read_family(folder: Path, options: ImportOptions, *, allow_pickle: bool) -> Family:
    """The model in a folder, by `model_type` in its `config.json`, or in Marian's own files.

    Raises UserError with the file and the key that cannot be used.
    """
    if not (folder / CONFIG_FILE).is_file() and (file := find_marian_files(folder)):
        return MarianFiles(file, options)
    if (folder / MANIFEST).is_file():
        raise DataError(f"{folder}: is a run directory already; translate with it: seq2attn translate {folder}")
    check_files(folder, allow_pickle=allow_pickle, pickle_hint="is a pickle: ``allow_pickle`` reads it")
    config = read_object(folder / CONFIG_FILE, FILE_HINT)
    families = {family.model_type: family for family in FAMILIES}
    if (model_type := str(config.get("model_type"))) not in families:
        known = ", ".join(f"`{name}`" for name in families)
        raise DataError(f"{folder / CONFIG_FILE}: `model_type` is `{model_type}`; only {known} can be imported")
    return families[model_type](folder, config, options)
