"""What a run was exported to, against the run itself."""

from __future__ import annotations

import copy

from seq2attn.doctor.findings import DoesNotApplyError, Found
from seq2attn.doctor.patient import Patient
from seq2attn.engines.export import searches_to_try
from seq2attn.engines.exported import HEADER
from seq2attn.engines.native import Native
from seq2attn.engines.probe import LEAST, probe
from seq2attn.engines.targets import exported_engine
from seq2attn.errors import UserError
from seq2attn.text.files import read_object

ROUNDED = 0.05
"""The share of tokens that may differ where an export's numbers are not float32."""


def exported_is_native(patient: Patient, name: str) -> Found:
    """Both take the same words, greedily. A beam may end otherwise, which is told, and breaks no law."""
    folder = patient.run.folder / name
    if not folder.is_dir():
        raise DoesNotApplyError("the run was not exported to it")
    try:
        theirs = exported_engine(patient.run, name, None, patient.device)
    except UserError as error:
        raise DoesNotApplyError(str(error)) from None
    ours = Native(copy.deepcopy(patient.plain).float())
    found = probe(ours, theirs, patient.sources, searches_to_try(patient.search.lengths))
    greedy, beam = found.searches
    note = (
        f"{beam.search} agrees in {beam.tokens:.2%} of the tokens, log-probabilities of the same translations to"
        f" {found.forced.largest:.1e}"
    )
    is_float32 = read_object(folder / HEADER, "").get("type") == "float32"
    return Found(1 - greedy.tokens, (1 - LEAST) if is_float32 else ROUNDED, None, note)
