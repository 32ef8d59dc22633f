"""`keras-selfattn versions`: lists and removes the versions of a model."""

from pathlib import Path

import click

from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import columns, console
from keras_selfattn.cli.shared.panels import COUNT, PATH, Option, PanelCommand
from keras_selfattn.files.object_stores import uri_of

_PANELS = {
    "Options": (
        Option("--latest", is_flag=True, help="Print the number of the highest version alone."),
        Option("--remove", type=COUNT, multiple=True, help="Remove this version; may be given again."),
        Option("--keep", type=COUNT, help="Remove all but the N highest versions."),
    )
}


@click.command("versions", cls=PanelCommand, panels=_PANELS)
@click.argument("base_path", type=PATH)
def command(base_path: Path, latest: bool, remove: tuple[int, ...], keep: int | None) -> None:
    """List the versions under BASE_PATH, or remove some.

    BASE_PATH is what `export` writes to: a folder, or the URI of one in an object store.
    """
    import_tensorflow()
    from keras_selfattn.errors import ExportError
    from keras_selfattn.export import keep_newest, latest_version, list_versions, remove_versions

    if not list_versions(base_path):
        raise ExportError(
            f"{uri_of(base_path) or base_path} has no versions. `keras-selfattn export` writes them."
        )
    remove_versions(base_path, *remove)
    removed = [*remove, *([] if keep is None else keep_newest(base_path, keep))]
    if latest:
        click.echo(latest_version(base_path))
        return
    if removed:
        console.print(f"Removed {', '.join(map(str, sorted(set(removed))))}.")
    _print_versions(base_path)


def _print_versions(base_path: Path) -> None:
    from keras_selfattn.export.versions import formats_of, read_version, version_folders

    names = ("version", "created (UTC)", "task", "precision", "accuracy", "MB")
    table = columns(None, *names, right=("version", "MB"))
    for version, name in sorted(version_folders(base_path).items()):
        found, size = read_version(base_path, name)
        card = found or {}
        accuracy = (card.get("metrics") or {}).get("accuracy")
        table.add_row(
            str(version),
            card.get("created", "no card")[:16].replace("T", " "),
            card.get("task", ""),
            card.get("precision") or "",
            "" if accuracy is None else f"{accuracy:.1%}",
            f"{size / 1e6:,.1f}",
        )
    console.print(table)
    # All versions of a folder are of one format.
    for form in sorted(formats_of(base_path) - {"savedmodel"}):
        console.print(f"Format: {form}", highlight=False)
