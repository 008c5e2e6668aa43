"""Sweeps: a grid of trainings, their evaluation, and a leaderboard."""
