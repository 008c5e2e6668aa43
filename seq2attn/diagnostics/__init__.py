"""Checks on a user's own machine: of a trained model, and of a training that is interrupted and resumed."""
