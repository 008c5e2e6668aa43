"""`python -m seq2attn`."""

from seq2attn.io.import_path import leave_out_working_directory

leave_out_working_directory()  # before any import from outside the standard library

from seq2attn.cli import main  # noqa: E402

main()
