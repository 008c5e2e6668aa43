"""Proving on the user's own machine that a resumed training is the one that was never interrupted."""
