"""Training losses: cross-entropy, consistency, REINFORCE and guided alignment."""
