"""Checks of a trained model on a user's own machine."""
