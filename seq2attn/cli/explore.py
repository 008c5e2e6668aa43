"""`seq2attn explore`."""

from seq2attn.cli.flatten import takes
from seq2attn.options import TranslationOptions
from seq2attn.options.runs import ExploreOptions


@takes(
    "arguments input_file references test_set worst best output_file overwrite all_heads port browser checkpoints"
    " overrides allow_code ensemble beam greedy glossary tag to long_inputs device precision"
)
def explore(options: TranslationOptions, exploring: ExploreOptions) -> None:
    """Show the decisions of a model in the browser: beam search, words considered, attention, and what mattered.

    \b
    Examples:
      seq2attn explore runs/phrasebook
      seq2attn explore runs/phrasebook "Das Haus ist alt." -o page.html
      seq2attn explore runs/before runs/after
      seq2attn explore runs/phrasebook --test-set unseen --worst 20 -o worst.html
    """
    from seq2attn.explorer.run_explorer import run_explorer

    run_explorer(options, exploring)
