"""Export of runs: one registry of formats, their checks, and model cards."""
