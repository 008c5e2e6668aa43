"""Checkpoints: saved, kept, resumed from and averaged."""
