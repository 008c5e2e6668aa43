"""Optimizers, learning-rate schedules and moving averages of weights."""
