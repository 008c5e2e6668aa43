"""Attention and curves, drawn: as text for a terminal, as pictures for a paper."""
