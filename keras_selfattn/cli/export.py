"""`keras-selfattn export`: a run folder to the next version of a SavedModel."""

import time
from pathlib import Path

import click

from keras_selfattn.cli.console import console, import_tensorflow, print_command


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("base_path", type=click.Path(path_type=Path))
@click.option("--version", type=int, help="Version number.  [default: the next one]")
def command(run: Path, base_path: Path, version: int | None) -> None:
    """Export RUN, a run folder, as a version under BASE_PATH, checked in a fresh process."""
    import_tensorflow()
    from keras_selfattn.export import export_saved_model
    from keras_selfattn.runs import load_run

    started = time.perf_counter()
    with console.status("Exporting, and checking the export in a fresh process"):
        path = export_saved_model(load_run(run), base_path, version)
    seconds = time.perf_counter() - started
    console.print(f"Exported and checked {path} in {seconds:.0f} s. Serve it with:")
    name = base_path.resolve().name
    print_command("serve", f"--model_name={name}", f"--model_base_path={base_path}")
