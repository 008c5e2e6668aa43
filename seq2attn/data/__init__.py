"""Parallel text: read, filtered, prepared as ids, and planned into batches."""
