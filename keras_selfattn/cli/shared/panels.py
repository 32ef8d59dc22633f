"""A command whose help lists its options under headings: the most used first, then by subject."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from keras_selfattn.options import OptionSpec
from keras_selfattn.serving.errors import InvalidInputError

COUNT = click.IntRange(min=1)
PATH = click.Path(path_type=Path)

ARGUMENTS = "keras_selfattn.arguments"
"""Where a context keeps the words after the command's name, for a command that starts itself again."""
AFTER_INTERRUPT = "keras_selfattn.after_interrupt"
"""The key in `click.Context.meta` of a sentence to print after an interrupt, with a blank before it."""
# Names of values in the help, for options without a `metavar`.
_METAVARS = {COUNT: "N", PATH: "FILE"}
# A name that is wider than this has a line of its own.
_NAME_WIDTH = 24


class Option(click.Option):
    """An option whose help describes its default in words, and omits its range: the error names it.

    Args:
        names: as `click.Option` takes them, one argument each.
        without: the default in words.
        settings: as `click.Option` takes them.
    """

    def __init__(self, *names: str, without: str | None = None, **settings: Any) -> None:
        super().__init__(names, **settings)
        if self.metavar is None:
            self.metavar = _METAVARS.get(self.type)
        self.without = without

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if self.without is not None:
            extra["default"] = self.without
        return extra


def click_option(spec: OptionSpec) -> Option:
    """Return an option that is data as one of click's."""
    settings: dict[str, Any] = {"help": spec.help, "default": spec.default, "without": spec.without}
    if spec.switch is not None:
        # A flag that is False where it is not given is click's own kind of flag, with no default in the help.
        settings |= {"flag_value": spec.switch} if spec.default is None else {"is_flag": True}
        return Option(spec.flag, spec.name, **settings)
    return Option(
        spec.flag,
        spec.name,
        type=_type_of(spec),
        metavar=spec.placeholder,
        multiple=spec.many,
        callback=None if spec.read is None else _reading(spec.read),
        **settings,
    )


def _type_of(spec: OptionSpec) -> Any:
    if spec.choices:
        return click.Choice(spec.choices)
    if spec.kind is Path:
        return PATH
    if spec.least is None:
        return spec.kind
    return COUNT if spec.least == COUNT.min else click.IntRange(min=spec.least)


def _reading(read: Callable[[Iterable[str]], Any]) -> Callable[..., Any]:
    def callback(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> Any:
        try:
            return read(values)
        except InvalidInputError as error:
            raise click.BadParameter(str(error)) from error

    return callback


class PanelCommand(click.Command):
    """A command with the options of its panels; its help lists them under the panels' headings.

    Args:
        arguments: as `click.Command` takes them.
        panels: options by heading, of click or as data, in the order of the help. `--help` ends the first.
        settings: as `click.Command` takes them.
    """

    def __init__(
        self, *arguments: Any, panels: Mapping[str, Iterable[click.Option | OptionSpec]], **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self.panels = {
            heading: tuple(click_option(each) if isinstance(each, OptionSpec) else each for each in options)
            for heading, options in panels.items()
        }
        self.params += [option for options in self.panels.values() for option in options]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = {heading: _rows(ctx, options) for heading, options in self.panels.items()}
        if (own := self.get_help_option(ctx)) is not None:
            next(iter(rows.values())).extend(_rows(ctx, [own]))
        widest = max(len(name) for panel in rows.values() for name, _ in panel)
        for heading, panel in rows.items():
            with formatter.section(heading):
                # The same width in all panels, so that the descriptions stand in one column.
                formatter.write_dl(
                    [(f"{name:{min(widest, _NAME_WIDTH)}}", words) for name, words in panel], _NAME_WIDTH
                )


def _rows(ctx: click.Context, options: Iterable[click.Option]) -> list[tuple[str, str]]:
    records = [option.get_help_record(ctx) for option in options]
    return [(name.rstrip(), words) for name, words in filter(None, records)]
