"""Tests that need a CUDA device: `pytest -m cuda`. Without one they are skipped."""
