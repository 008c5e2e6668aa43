"""Training for translation."""
