"""A group of commands that names the nearest one where a name is mistyped."""

import difflib

import click


class NearestGroup(click.Group):
    """A group that suggests commands; newer versions of click do so, but none that are imported late."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0].lower(), self.list_commands(ctx))
            if not near or "Did you mean" in error.message:
                raise
            suggested = f"{error.message} Did you mean {' or '.join(map(repr, near))}?"
            raise click.UsageError(suggested, ctx) from error
