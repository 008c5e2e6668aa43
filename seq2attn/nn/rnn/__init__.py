"""RNNs that train fast on a CPU: fused steps, and one gradient of each weight for all steps."""
