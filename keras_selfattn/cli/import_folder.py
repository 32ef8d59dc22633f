"""`keras-selfattn import`: a classifier that others have trained, from its folder to a run folder."""

from pathlib import Path

import click

from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import console, print_command
from keras_selfattn.cli.shared.panels import PATH, PanelCommand
from keras_selfattn.cli.shared.task_options import OUTPUT
from keras_selfattn.errors import RunError
from keras_selfattn.runs.run_folder import check_output, write_imported, writing

_SHOWN = 10  # labels


@click.command("import", cls=PanelCommand, panels={"Most used": OUTPUT})
@click.argument("folder", type=PATH)
def command(folder: Path, output: Path, overwrite: bool) -> None:
    """Write a run folder of the classifier of texts in FOLDER, without training.

    FOLDER is one of the Hugging Face kind, with a model "…ForSequenceClassification" of BERT, DistilBERT,
    ELECTRA, ModernBERT, MPNet or RoBERTa. Nothing is downloaded.
    """
    check_output(output, overwrite=overwrite)
    if (folder / "model.keras").is_file():
        raise RunError(f"{folder} is a run folder already. Export it with `keras-selfattn export {folder}`.")
    import_tensorflow()
    from keras_selfattn.models import TextClassifier
    from keras_selfattn.runs.run_folder import draft_run

    with console.status("Reading the model"), draft_run(output, overwrite=overwrite) as draft:
        model = TextClassifier.from_folder(folder)
        with writing(output):
            write_imported(draft, model)
    labels = ", ".join(model.labels[:_SHOWN]) + (", …" if len(model.labels) > _SHOWN else "")
    several = ", several for a text" if model.multi_label else ""
    console.print(f"Imported {folder}: {len(model.labels)} labels{several} ({labels}). Go on with:")
    print_command("evaluate", output, "labelled.csv")
    print_command("export", output, f"models/{output.resolve().name}")
