"""Download of a public corpus, with a check: `python scripts/download.py multi30k`.

A second run resumes an interrupted transfer; files that are already right stay as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from seq2attn.data.corpora import CORPORA, fetch_corpus
from seq2attn.errors import UserError
from seq2attn.io.terminal import name_options


def main(arguments: Sequence[str] | None = None) -> int:
    names = "".join(f"\n  {name:<17} {corpus.description}" for name, corpus in CORPORA.items())
    parser = argparse.ArgumentParser(
        description=f"Fetch a public corpus and check it:{names}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", help="one of these names")
    parser.add_argument("--output", type=Path, help="the folder to fill (default: data/CORPUS)")
    parser.add_argument("--mirror", type=Path, help="copy from DIR/CORPUS/ instead of the network", metavar="DIR")
    options = parser.parse_args(arguments)
    output = options.output or Path("data") / options.corpus
    try:
        result = fetch_corpus(options.corpus, output, mirror=options.mirror)
    except (UserError, OSError) as error:  # a folder that cannot be written, a full disk
        print(name_options(f"download: {error}"), file=sys.stderr)
        return 2
    print(f"{output}: {len(result.new)} files new, {len(result.present)} already right")
    if result.unchecked:
        print(f"not checked: no checksum is known: {', '.join(result.unchecked)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
