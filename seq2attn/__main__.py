"""`python -m seq2attn`."""

from seq2attn.cli import main

main()
