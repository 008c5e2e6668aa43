"""Scores of translations: metrics, test sets and reports."""
