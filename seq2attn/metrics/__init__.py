"""Metrics of translations, their significance, and statistics by length."""
