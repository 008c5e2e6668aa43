"""Speed and memory, ours and other toolkits', measured in turn on the same text and the same architectures."""
