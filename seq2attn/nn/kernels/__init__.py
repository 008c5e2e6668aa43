"""Fast kernels: products, recurrent steps, attention and cross-entropy, each with a plain reference."""
