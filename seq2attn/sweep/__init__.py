"""Sweeps: the trials of a grid trained and measured, and a leaderboard of them."""
