"""Pictures, pages and text of attention weights, and BLEU by sentence length."""
