"""`keras-selfattn import`: a classifier, or scores, that others have trained, as a run folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import console, print_command
from keras_selfattn.cli.shared.panels import PanelCommand, click_option
from keras_selfattn.cli.shared.task_options import OUTPUT, fetch_weights
from keras_selfattn.errors import RunError
from keras_selfattn.files.hub_folders import located
from keras_selfattn.options import REVISION
from keras_selfattn.rows.targets import LABEL_SET
from keras_selfattn.runs.run_folder import check_output, write_imported, writing

if TYPE_CHECKING:
    from keras_selfattn.models.pretrained_folders.folder_head import FolderHead

_SHOWN = 10  # labels


_ROWS = click.Option(
    ["--text-pairs/--one-text"],
    default=None,
    help="Rows are two texts, or one. Only where FOLDER does not say it: then a score needs it, and labels "
    "are of one text.",
)


_SYMMETRIC = click.Option(
    ["--symmetric"],
    is_flag=True,
    help="Average both orders of a pair, so that it has the answer of its reverse.",
)


_PANELS = {"Most used": (*OUTPUT, click_option(REVISION), _ROWS, _SYMMETRIC)}


@click.command("import", cls=PanelCommand, panels=_PANELS)
@click.argument("folder")
def command(
    folder: str,
    output: Path,
    overwrite: bool,
    revision: str | None,
    text_pairs: bool | None,
    symmetric: bool,
) -> None:
    """Write a run folder of the classifier of texts in FOLDER, or of its scores, without training.

    FOLDER is one of the Hugging Face kind, with a model "…ForSequenceClassification" of BERT, DistilBERT,
    ELECTRA, ModernBERT, MPNet, RoBERTa or XLM-RoBERTa, such as a cross-encoder's; or its name in the Hugging
    Face hub, from where it is fetched.
    """
    check_output(output, overwrite=overwrite)
    place = located(folder, revision)
    if Path(place, "model.keras").is_file():
        raise RunError(f"{folder} is a run folder already. Export it with `keras-selfattn export {folder}`.")
    import_tensorflow()
    fetch_weights(place, classifier=True)
    from keras_selfattn.models.loading import headed_model
    from keras_selfattn.runs.run_folder import draft_run

    with console.status("Reading the model"), draft_run(output, overwrite=overwrite) as draft:
        model: Any = headed_model(place, text_pairs=text_pairs, symmetric=symmetric)
        with writing(output):
            write_imported(draft, model)
    outputs = _outputs(model.start.folder_head(scores=not hasattr(model, "labels")))
    rows = "two texts" if model.text_pairs else "one text"
    rows = f"{rows} a row, in either order" if symmetric else f"{rows} a row"
    console.print(f"Imported {place}: {outputs} {rows}. Go on with:")
    second = ("--text-pair", "COLUMN") if model.text_pairs else ()
    print_command("evaluate", output, "labelled.csv", *second)
    print_command("export", output, f"models/{output.resolve().name}")


def _outputs(head: "FolderHead") -> str:
    """Return a folder's outputs in words."""
    count = len(head.labels)
    if not head.target_kind.has_labels:
        function = "a sigmoid" if head.bounded else "no function"
        bounds = " in [0, 1]" if head.bounded else ""
        what = f"a score{bounds}" if count == 1 else f"{count} scores{bounds}"
        return f"{what}, with {function} after the output layer ({head.reason}), of"
    labels = ", ".join(head.labels[:_SHOWN]) + (", …" if count > _SHOWN else "")
    several = ", several for a row" if head.target_kind == LABEL_SET else ""
    return f"{count} labels{several} ({labels}) of"
