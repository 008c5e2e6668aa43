"""How good translations are, and whether one system is better than another."""
