"""`seq2attn translate`."""

from seq2attn.cli.flatten import takes
from seq2attn.options import AttentionSelection, RunDir, TranslateOptions, TranslationOptions


@takes(
    "run overrides allow_code ensemble rerank rerank_backward sentences input_file output_file overwrite beam greedy"
    " mbr replace_unk n_best prefix glossary as_json attention kind layer head whole_words color_scale tag to"
    " long_inputs engine export_dir device precision batch_tokens"
)
def translate(run: RunDir, options: TranslationOptions, files: TranslateOptions, selection: AttentionSelection) -> None:
    """Translate sentences, a file, or standard input line by line.

    The output has exactly one line per input line, in the same order; an empty line stays empty.

    \b
    Examples:
      seq2attn translate runs/phrasebook "Das Haus ist alt." "Wo wohnt der Arzt?"
      seq2attn translate runs/phrasebook -i input.de -o output.en --beam 10
      echo "Das Haus ist alt." | seq2attn translate runs/phrasebook --n-best 3 --prefix "This house"
      seq2attn translate runs/phrasebook "Das Haus ist alt." --attention - --whole-words
      seq2attn translate runs/nllb "Das Haus ist alt." --to fra_Latn
      seq2attn translate runs/a -i input.de --ensemble runs/b --rerank runs/r2l --rerank-backward runs/en-de:0.5
    """
    from seq2attn.inference.translate_files import translate_files

    translate_files(run, options, files, selection)
