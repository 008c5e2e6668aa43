"""The work of `seq2attn init`: a config that suits a text, the machine and the time."""
