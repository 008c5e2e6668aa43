"""Which words of a source and its translation belong together, as attention has it."""
