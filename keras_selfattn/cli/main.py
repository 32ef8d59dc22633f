"""The `keras-selfattn` command."""

import click


@click.group()
def main() -> None:
    """Train, export, serve and query self-attention classifiers."""
