"""The group of commands that spaCy's own command line takes in."""

import typer

HELP = """Conditional random fields for spaCy: train in seconds, evaluate as the CoNLL scorer does, convert corpora.

Each command explains itself, with an example: python -m spacy crfseq fit --help
"""

crfseq_cli = typer.Typer(
    name="crfseq", help=HELP, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)
