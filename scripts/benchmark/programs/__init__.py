"""Programs that a peer's own interpreter runs: they know nothing but the segmented text and that peer's library."""
