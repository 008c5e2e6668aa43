"""Pictures, pages and text of attention weights, and training curves."""
