"""Counts over corpora, and the warnings that follow from them."""
