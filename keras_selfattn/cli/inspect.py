"""`keras-selfattn inspect`: the content of a SavedModel, whoever wrote it."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import columns, console
from keras_selfattn.files import valid_json
from keras_selfattn.serving.wire.signature_names import DEFAULT_SIGNATURE

if TYPE_CHECKING:
    from keras_selfattn.export import Inspection

_SHOWN = 12  # names in a line
_WIDTH = 70  # characters of an example's value


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON, the card included.")
def command(path: Path, as_json: bool) -> None:
    """Show the signatures, operations, size and model card of PATH.

    PATH is a SavedModel's folder, whoever wrote it, or a folder of versions, of which the newest is shown.
    Of one for ONNX Runtime or LiteRT the card is shown. Nothing in it is run.
    """
    import_tensorflow()
    from keras_selfattn.export import inspect_saved_model

    found = inspect_saved_model(path)
    if as_json:
        click.echo(valid_json.dumps(_as_json(found), indent=2, ensure_ascii=False))
        return
    console.print(f"{found.path}", style="bold", soft_wrap=True, highlight=False)
    if found.card is not None:
        _print_card(found.card)
    _print_files(found)
    _print_signatures(found)
    if found.card is not None:
        _print_example(found.card)


def _print_card(card: Mapping[str, Any]) -> None:
    labels, vocabulary = card.get("labels"), card.get("vocabulary_size")
    parts = [str(card.get("task"))]
    if labels:
        shown = ", ".join(labels[:_SHOWN]) + (", …" if len(labels) > _SHOWN else "")
        parts.append(f"{len(labels):,} labels ({shown})")
    if vocabulary:
        parts.append(f"vocabulary of {vocabulary:,}")
    if card.get("sample_rate"):
        parts.append(f"recordings at {card['sample_rate']:,} Hz")
    if card.get("precision"):
        parts.append(f"precision {card['precision']}")
    console.print("; ".join(parts), highlight=False)
    metrics, training = card.get("metrics"), card.get("training") or {}
    for name, part in training.get("data", {}).items():
        console.print(f"{name} data: {part.get('source')}, {part.get('rows', 0):,} rows", highlight=False)
    if metrics:
        figures = ", ".join(f"{name} {_figure(value)}" for name, value in metrics.items())
        console.print(f"Measured: {figures}", highlight=False)
    versions, measured = card.get("versions", {}), card.get("measured", {})
    console.print(
        f"Written {card.get('created')} by keras-selfattn {versions.get('keras-selfattn')}; a request took "
        f"{measured.get('request_ms')} ms there; for {_runtime(card)}",
        highlight=False,
    )


def _runtime(card: Mapping[str, Any]) -> str:
    requires = card.get("requires", {})
    if card.get("runtime") == "onnx":
        return f"ONNX Runtime, or another with operation set {requires.get('onnx_opset')} of ONNX"
    if card.get("runtime") == "litert":
        return "LiteRT"
    onednn = " with TF_ENABLE_ONEDNN_OPTS=1, on x86" if requires.get("onednn") else ""
    return f"TensorFlow Serving {requires.get('tensorflow_serving')}{onednn}"


def _print_files(found: "Inspection") -> None:
    if found.format != "savedmodel":
        kinds = len((found.card or {}).get("requires", {}).get("operations", []))
        console.print(f"{found.bytes / 1e6:,.1f} MB; operations of {kinds:,} kinds", highlight=False)
        _print_intact(found)
        return
    numbers = sum(_count(tensor.shape) for tensor in found.variables.values())
    console.print(
        f"{found.bytes / 1e6:,.1f} MB, {len(found.variables):,} variables of {numbers:,} numbers; "
        f"{sum(found.operations.values()):,} operations of {len(found.operations):,} kinds; "
        f"{found.warmup_requests:,} warmup requests; TensorFlow {found.tensorflow or 'unknown'}",
        highlight=False,
    )
    _print_intact(found)


def _print_intact(found: "Inspection") -> None:
    if found.intact is False:
        console.print("The files are NOT those that the card was written for.", style="bold red")
    elif found.intact is None:
        console.print("There is no model card: it was not written by keras-selfattn.", highlight=False)


def _print_signatures(found: "Inspection") -> None:
    table = columns(None, "signature", "for", "inputs", "outputs")
    for name, signature in found.signatures.items():
        inputs, outputs = (
            "\n".join(f"{key}: {tensor}" for key, tensor in side.items())
            for side in (signature.inputs, signature.outputs)
        )
        table.add_row(name, signature.method_name.rpartition("/")[2], inputs, outputs)
    console.print(table)
    described = (found.card or {}).get("signatures", {})
    for name, each in described.items():
        if each.get("note"):
            console.print(f"{name}: {each['note']}", highlight=False)


def _print_example(card: Mapping[str, Any]) -> None:
    example = card.get("signatures", {}).get(DEFAULT_SIGNATURE, {}).get("example")
    if example:
        kind = "made-up example" if example.get("made_up") else "example"
        for what in ("request", "answer"):
            for name, value in example[what].items():
                text = json.dumps(value, ensure_ascii=False)
                text = text if len(text) <= _WIDTH else text[:_WIDTH] + " …"
                console.print(f"{kind} {what}: {name} = {text}", soft_wrap=True, highlight=False)


def _as_json(found: "Inspection") -> dict[str, Any]:
    return {**dataclasses.asdict(found), "path": str(found.path)}


def _count(shape: tuple[int | None, ...] | None) -> int:
    count = 1
    for size in shape or ():
        count *= size or 0
    return count


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
