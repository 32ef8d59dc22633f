"""The `keras-selfattn` command: finds the subcommand, and turns what users can mend into one clear line."""

import importlib
import sys
from typing import Any

import click

from keras_selfattn import __version__
from keras_selfattn.errors import SelfAttentionError
from keras_selfattn.serving.errors import ServingError

# In the order in which one needs them. A module is imported when its command is asked for: `query` answers
# without TensorFlow.
_COMMANDS = ("quickstart", "train", "evaluate", "export", "serve", "query")

_INTERRUPTED = 130  # what a shell reports after Ctrl-C


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return importlib.import_module(f"keras_selfattn.cli.{cmd_name}").command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (SelfAttentionError, ServingError) as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            sys.exit(_INTERRUPTED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="keras-selfattn")
def main() -> None:
    """Train, export, serve and query self-attention classifiers.

    Begin with `keras-selfattn quickstart`: all of it in one go, in a few minutes, with no download.
    """
