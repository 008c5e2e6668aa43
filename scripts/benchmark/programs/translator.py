"""Our translation of one sentence at a time: `translator RUN --source FILE --output FILE --beam N --times FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmark.programs.writing import translate_all
from seq2attn.inference.translator import Translator
from seq2attn.search.search_config import resolve_search


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    for name, kind in (("source", Path), ("output", Path), ("beam", int), ("times", Path)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--engine", default="native")
    parser.add_argument("--export-dir", type=Path)
    options = parser.parse_args()
    options.batch = 1
    translator = Translator.load(options.run, engine=options.engine, export_dir=options.export_dir)
    beam = None if options.beam == 1 else options.beam
    search = resolve_search(translator.search, beam=beam, greedy=beam is None)
    lines = [[line] for line in options.source.read_text("utf-8").split("\n")[:-1]]

    def translate_batch(batch: list[list[str]]) -> list[str]:
        ((line,),) = batch
        return [translation.text for translation in translator.translate([line], search)]

    translate_all(lines, translate_batch, options)


if __name__ == "__main__":
    main()
