"""Word alignments from attention weights."""
