"""`python -m benchmarks`: layers and client beside their peers, measured in the same run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from benchmarks.accuracy.command import accuracy
from benchmarks.report import check_plot, number, report, wide_console
from benchmarks.soak.command import soak
from keras_selfattn.cli.main import CommandGroup
from keras_selfattn.cli.shared.backend import import_tensorflow
from keras_selfattn.cli.shared.console import columns, console
from keras_selfattn.options import SEPARATOR

_CPU = {"cpu median ms": "CPU ms"}
_WALL = {"wall median ms": "wall ms"}
_MEMORY = {"memory MB": "MB"}
_CHECKED = {"difference": "differs", "gradient": "gradient"}
_SERVED = {
    "examples/s": "examples/s",
    "cpu ms of one": "CPU ms of one",
    "requests/s": "requests/s",
    **{name: name for name in ("p50 ms", "p99 ms", "p99.9 ms")},
    "cpu ms": "CPU ms",
    "client cpu ms": "client's",
    "seconds": "seconds",
    "cpu s": "CPU s",
    **_MEMORY,
    "failures": "failures",
}
_LOSSES = "order or cosine of a bi-encoder, squared error or cross-entropy of a cross-encoder"
_SHARE = {"times ours": "× ours", "of matmul rate": "of peak"}


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
def main() -> None:
    """Measure layers and client beside their peers: time, memory, and that all compute the same.

    Every contestant runs in a process of its own; they are measured in turns. A peer that is not installed is
    skipped and named: `pip install '.[all,bench,backends]'` brings them. CPU time is of one thread.
    """


main.add_command(accuracy)
main.add_command(soak)


_kept = click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON Lines file that keeps each training: those in it are not repeated.",
)


def _options(function: Callable) -> Callable:
    """The options that all benchmarks take."""
    for option in (
        click.option("--rounds", type=click.IntRange(1), default=5, help="Measurements of each contestant."),
        click.option("--only", multiple=True, help="Only rows and contestants whose names hold this text."),
        click.option("--quick", is_flag=True, help="Tiny inputs: to see that it runs."),
        click.option(
            "--deadline",
            type=click.FloatRange(0, min_open=True),
            default=900.0,
            help="Seconds that a contestant may take to answer before it is skipped.",
        ),
        click.option(
            "--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), help="CSV to write."
        ),
        click.option(
            "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Figure to write (.png)."
        ),
    ):
        function = option(function)
    return function


def _encoder_options(function: Callable) -> Callable:
    for option in (
        click.option("--data", type=click.Path(path_type=Path), help="Table whose texts give real lengths."),
        click.option("--text-column", default="text", help="Column of --data with the texts."),
        click.option("--separator", help=SEPARATOR.help),
        click.option(
            "--memory/--no-memory", default=True, help="Measure memory, in fresh processes, as well."
        ),
        click.option(
            "--all-cores/--no-all-cores",
            default=True,
            help="Measure wall time on all cores as well, which takes as long again.",
        ),
    ):
        function = option(function)
    return _options(function)


@main.command("attention")
@_encoder_options
def attention(
    data: Path | None,
    text_column: str,
    separator: str | None,
    memory: bool,
    all_cores: bool,
    csv_file: Path | None,
    plot: Path | None,
    **settings: Any,
) -> None:
    """Inference of an encoder block: ours, KerasHub's, PyTorch's, and two engines on KerasHub's weights."""
    _encoders(False, data, text_column, separator, memory, all_cores, csv_file, plot, settings)


@main.command("training")
@_encoder_options
def training(
    data: Path | None,
    text_column: str,
    separator: str | None,
    memory: bool,
    all_cores: bool,
    csv_file: Path | None,
    plot: Path | None,
    **settings: Any,
) -> None:
    """A training step of an encoder block, forward and backward: ours, KerasHub's and PyTorch's."""
    _encoders(True, data, text_column, separator, memory, all_cores, csv_file, plot, settings)


_PRETRAINED_MODEL = click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder of the pretrained encoder, such as all-MiniLM-L6-v2.",
)


@main.command("pretrained")
@_options
@_PRETRAINED_MODEL
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="Table with the texts to embed.",
)
@click.option("--text-column", default="text", help="Column of --data with the texts.")
@click.option("--separator", help=SEPARATOR.help)
def pretrained(
    model: Path,
    data: Path,
    text_column: str,
    separator: str | None,
    csv_file: Path | None,
    plot: Path | None,
    **settings: Any,
) -> None:
    """Raw text to vectors with the same pretrained weights: ours, and five other engines."""
    from benchmarks import pretrained as benchmark

    check_plot(plot)
    table = benchmark.run(_settings(settings), model, _texts(data, text_column, separator))
    shown = {**_CPU, **_SHARE, **_MEMORY, **_CHECKED}
    report(table, shown, csv_file, plot, ("cpu median ms", "CPU ms of one thread"))


@main.command("fine-tuning")
@_options
@_PRETRAINED_MODEL
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder that holds a folder for each set of texts, as for `accuracy`.",
)
@click.option("--seeds", type=click.IntRange(1), default=3, help="How often each is trained on each set.")
@click.option("--rows-per-class", type=click.IntRange(2), help="Training rows of each class; all by default.")
def fine_tuning(
    model: Path,
    data: Path,
    seeds: int,
    rows_per_class: int | None,
    csv_file: Path | None,
    plot: Path | None,
    **settings: Any,
) -> None:
    """Test accuracy and cost of fine-tuning the same weights: ours, transformers', and a linear model's."""
    from benchmarks import fine_tuning as benchmark

    check_plot(plot)
    shown = {name: name for name in ("accuracy", "log loss", "seconds", "cpu s")} | _MEMORY
    table = benchmark.run(_settings(settings), model, data, seeds, rows_per_class)
    report(table, shown, csv_file, plot, ("cpu s", "CPU seconds of training"))


@main.command("similarity")
@_options
@_PRETRAINED_MODEL
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder with LANGUAGE-train.csv, -dev.csv and -test.csv: two texts and a score, without a header.",
)
@click.option("--language", default="en", help="Beginning of the names of the files.")
@click.option("--seeds", type=click.IntRange(1), default=3, help="How often each is trained.")
@click.option("--rows", type=click.IntRange(20), help="The most training rows; all by default.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(["bi-encoder", "cross-encoder"]),
    help="May be repeated; both by default.",
)
@click.option("--loss", help=f"Loss of ours: {_LOSSES}; the first by default.")
@click.option("--peer-loss", help="Of the peer: order or cosine of a bi-encoder, cross-entropy otherwise.")
@click.option("--rate", type=float, help="Learning rate of ours.")
@click.option("--peer-rate", type=float, help="Learning rate of the peer; 5e-5 by default.")
@click.option("--epochs", type=click.IntRange(1), help="Of ours.")
@click.option("--peer-epochs", type=click.IntRange(1), help="Of the peer; 4 by default.")
@click.option("--batch-size", type=click.IntRange(2), help="Of ours; 32 by default.")
@click.option(
    "--peer-batch-size",
    type=click.IntRange(2),
    help="Of the peer; 16 of a bi-encoder, 64 of a cross-encoder by default.",
)
@click.option("--tested-on", default="test", type=click.Choice(["test", "dev"]), help="Rows of the figures.")
@_kept
def similarity(
    model: Path,
    data: Path,
    language: str,
    seeds: int,
    rows: int | None,
    kinds: tuple[str, ...],
    csv_file: Path | None,
    plot: Path | None,
    loss: str | None,
    peer_loss: str | None,
    rate: float | None,
    peer_rate: float | None,
    epochs: int | None,
    peer_epochs: int | None,
    batch_size: int | None,
    peer_batch_size: int | None,
    tested_on: str,
    results: Path | None,
    **settings: Any,
) -> None:
    """Scores of pairs of texts, learned by bi- and cross-encoders: ours and sentence-transformers.

    Interrupt it when you like: with --results, the same command goes on where it stopped.
    """
    from benchmarks import similarity as benchmark
    from benchmarks.accuracy.store import Store
    from benchmarks.peers.measured_training import Recipe

    check_plot(plot)
    recipes = {
        benchmark.OURS: Recipe(loss, rate, epochs, batch_size),
        benchmark.PEER: Recipe(peer_loss, peer_rate, peer_epochs, peer_batch_size),
    }
    by_kind = dict.fromkeys(kinds or benchmark.KINDS, recipes)
    contest = benchmark.Contest(model, data, language, seeds, by_kind, rows, tested_on)
    store = None if results is None else Store(results, "spearman")
    shown = {name: name for name in ("spearman", "pearson", "seconds", "cpu s")} | _MEMORY
    table = benchmark.run(_settings(settings), contest, store)
    report(table, shown, csv_file, plot, ("cpu s", "CPU seconds of training"))


@main.command("decoding")
@_options
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="Run folder of a model that answers texts, trained without --position.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="File with a sentence a line, such as test.en.gz.",
)
@click.option("--max-new-tokens", type=click.IntRange(2), default=256, help="Most symbols of an answer.")
def decoding(
    model: Path, data: Path, max_new_tokens: int, csv_file: Path | None, plot: Path | None, **settings: Any
) -> None:
    """Answers of a model from texts to texts: our search, CTranslate2, transformers and KerasHub.

    All have the same weights and give the same symbols; greedy and with 4 beams, 1, 8 and 64 sentences at
    once. CPU ms are of one sentence.
    """
    from benchmarks.sequences import decoding as benchmark
    from keras_selfattn.data.formats.records import iter_lines

    check_plot(plot)
    texts = [line for _, line in iter_lines(data)]
    table = benchmark.run(_settings(settings), model, texts, max_new_tokens)
    shown = {**_CPU, "ready cpu s": "ready, CPU s", **_MEMORY, "symbols": "symbols", "as ours": "as ours"}
    report(table, shown, csv_file, plot, ("cpu median ms", "CPU ms of a sentence"))


@main.command("training-steps")
@_options
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="File with a source a line, such as train.en.",
)
@click.option("--target", default=".de", help="Ending of the file with the answers, as for `train`.")
def training_steps(
    data: Path, target: str, csv_file: Path | None, plot: Path | None, **settings: Any
) -> None:
    """A step of training from texts to texts, on real pairs: ours, and torch's layers of `nn.Transformer`.

    Both have the same weights, batches and loss. CPU ms are of one step.
    """
    from benchmarks.sequences import training_steps as benchmark
    from keras_selfattn.data.text_answers import read_answers

    check_plot(plot)
    table = benchmark.run(_settings(settings), read_answers(data, target=target))
    report(
        table,
        {**_CPU, **_WALL, **_MEMORY, "loss": "loss"},
        csv_file,
        plot,
        ("cpu median ms", "CPU ms of a step"),
    )


@main.command("sequences")
@_options
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder that holds `cmudict` and `multi30k`; without it, the tasks that the benchmark makes alone.",
)
@click.option("--seeds", type=click.IntRange(1), default=1, help="How often each is trained.")
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="Of ours and torch's, at most; by default the benchmark's own for each task.",
)
@_kept
def sequences(
    data: Path | None,
    seeds: int,
    epochs: int | None,
    results: Path | None,
    csv_file: Path | None,
    plot: Path | None,
    **settings: Any,
) -> None:
    """Answers learned: dates, numbers, reversal, by kind of position; words to phonemes; English to German.

    Interrupt it when you like: with --results, the same command goes on where it stopped.
    """
    from benchmarks.accuracy.store import Store
    from benchmarks.sequences import learning as benchmark

    check_plot(plot)
    store = None if results is None else Store(results, benchmark.FIGURE)
    table = benchmark.run(_settings(settings), data, seeds, epochs, store)
    shown = {"test exact": "exact", "longer exact": "exact, longer", "test symbol errors": "symbol errors"}
    shown |= {"4 beams exact": "exact, 4 beams", "4 beams symbol errors": "symbol errors, 4 beams"}
    shown |= {"test BLEU": "BLEU", "test chrF": "chrF"}
    shown |= {"4 beams BLEU": "BLEU, 4 beams", "4 beams chrF": "chrF, 4 beams"}
    shown |= {"seconds": "seconds", "cpu s": "CPU s", **_MEMORY}
    report(table, shown, csv_file, plot, ("test exact", "exact answers"))


@main.command("graphs")
@_options
@click.option("--seeds", type=click.IntRange(1), default=5, help="How often each is trained.")
@_kept
def graphs(
    seeds: int, results: Path | None, csv_file: Path | None, plot: Path | None, **settings: Any
) -> None:
    """Questions about graphs, by a bias for each distance and by a mask of the edges; needs no data."""
    from benchmarks import graphs as benchmark
    from benchmarks.accuracy.store import Store

    check_plot(plot)
    store = None if results is None else Store(results, benchmark.FIGURE)
    table = benchmark.run(_settings(settings), seeds, store)
    shown = {"same size": "same size, %", "larger": "larger, %", "weights": "weights", "cpu s": "CPU s"}
    report(table, shown, csv_file, plot, (benchmark.FIGURE, "right answers, larger graphs, %"))


@main.command("sound")
@_options
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder of the Free Spoken Digit Dataset, with its `recordings.zip`.",
)
@click.option("--seeds", type=click.IntRange(1), default=5, help="How often each is trained.")
@click.option("--epochs", type=click.IntRange(1), help="At most; by default those of `train`.")
@_kept
def sound(
    data: Path,
    seeds: int,
    epochs: int | None,
    results: Path | None,
    csv_file: Path | None,
    plot: Path | None,
    **settings: Any,
) -> None:
    """Spoken digits: attention, a convolutional network and random kernels, also on voices held out."""
    from benchmarks import sound as benchmark
    from benchmarks.accuracy.store import Store

    check_plot(plot)
    store = None if results is None else Store(results, benchmark.FIGURE)
    table = benchmark.run(_settings(settings), data, seeds, epochs, store)
    shown = {"accuracy": "accuracy", "trained weights": "trained weights", "cpu s": "CPU s"}
    shown["cpu ms of one"] = "CPU ms of one"
    report(table, shown, csv_file, plot, (benchmark.FIGURE, "accuracy"))


@main.command("tuning")
@_options
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder that holds a folder for each set, as for `accuracy`.",
)
@click.option(
    "--sets",
    "names",
    default="trec,mr,ucr_ECG200,ucr_JapaneseVowels",
    help="Names of the sets, between commas.",
)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=1.0, help="Of each search.")
@click.option("--seeds", type=click.IntRange(1), default=3, help="Searches of each kind on each set.")
@click.option("--rows", type=click.IntRange(100), default=1500, help="The most training rows of each set.")
def tuning(
    data: Path,
    names: str,
    minutes: float,
    seeds: int,
    rows: int,
    csv_file: Path | None,
    plot: Path | None,
    **settings: Any,
) -> None:
    """Held-out accuracy of the settings that `train --tune` finds, and Optuna in the same minutes."""
    from benchmarks import tuning as benchmark

    check_plot(plot)
    table = benchmark.run(_settings(settings), data, tuple(names.split(",")), minutes, seeds, rows)
    shown = {name: name for name in ("accuracy", "log loss", "validation", "trials")}
    report(table, shown, csv_file, plot, ("accuracy", "accuracy"))


@main.command("backends")
@_options
@click.option("--large", is_flag=True, help="Train a larger model as well: minutes an epoch on a few cores.")
def backends(large: bool, csv_file: Path | None, plot: Path | None, **settings: Any) -> None:
    """The same training on TensorFlow, JAX and PyTorch: seconds, compilations, accuracy."""
    from benchmarks import backends as benchmark

    check_plot(plot)
    shown = {name: name for name in ("first epoch s", "epoch s", "compiled", "accuracy", "loss")}
    table = benchmark.run(_settings(settings), large=large)
    report(table, shown, csv_file, plot, ("epoch s", "seconds of an epoch"))


@main.command("accelerated")
@_options
def accelerated(csv_file: Path | None, plot: Path | None, **settings: Any) -> None:
    """An encoder on a GPU, or the device that JAX finds: ours, of Keras' own layers, and PyTorch's."""
    from benchmarks import accelerated as benchmark

    check_plot(plot)
    shown = {"wall median ms": "wall ms", "TFLOP/s": "TFLOP/s", "times ours": "× ours", **_CHECKED}
    table = benchmark.run(_settings(settings))
    report(table, shown, csv_file, plot, ("wall median ms", "ms of a call"))


@main.command("processes")
@_options
def processes(csv_file: Path | None, plot: Path | None, **settings: Any) -> None:
    """A training on one process of one core and on two, beside PyTorch's DistributedDataParallel."""
    from benchmarks import data_parallel as benchmark

    check_plot(plot)
    shown = {"step s": "step s", "cpu s": "CPU s", "rows/s": "rows/s"}
    report(benchmark.run(_settings(settings)), shown, csv_file, plot, ("step s", "seconds of a step"))


@main.command("memory")
@_options
def memory(csv_file: Path | None, plot: Path | None, **settings: Any) -> None:
    """Peak memory of inference and training, and how it grows with the length."""
    from benchmarks import memory as benchmark

    check_plot(plot)
    shown = _MEMORY | {"memory exponent": "exponent"}
    report(benchmark.run(_settings(settings)), shown, csv_file, plot, ("memory MB", "MB"))


@main.command("dropout")
@_options
def dropout(csv_file: Path | None, plot: Path | None, **settings: Any) -> None:
    """Dropout in training: time for each element, the share that it drops and the variance."""
    from benchmarks import dropout as benchmark

    check_plot(plot)
    shown = {"ns per element": "ns per element", **_CPU, **_MEMORY, "rate": "dropped", "variance": "variance"}
    report(benchmark.run(_settings(settings)), shown, csv_file, plot, ("ns per element", "ns per element"))


@main.command("scaling")
@_options
def scaling(csv_file: Path | None, plot: Path | None, **settings: Any) -> None:
    """Convolution, recurrence and attention against length and width, on paper and measured."""
    from benchmarks import scaling as benchmark

    check_plot(plot)
    names = ("sequential operations", "maximum path length")
    fitted = ("time with length", "memory with length", "time with width")
    shown = {**_CPU, **_MEMORY, names[0]: "in turn", names[1]: "path", **{name: name for name in fitted}}
    report(benchmark.run(_settings(settings)), shown, csv_file, plot, None)


@main.command("serving")
@_options
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=5.0, help="Seconds of one measurement."
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    multiple=True,
    default=(1, 64),
    help="Clients that ask at the same time; for several loads, several times.",
)
@click.option(
    "--sleep",
    type=click.FloatRange(0),
    default=0.0,
    help="Milliseconds that each run of the model sleeps: shows how replicas grow where cores are few.",
)
def serving(
    csv_file: Path | None,
    plot: Path | None,
    seconds: float,
    connections: tuple[int, ...],
    sleep: float,
    **settings: Any,
) -> None:
    """Our server beside others in Python on the same model: requests, latency, CPU time, memory, start-up."""
    from benchmarks import serving as benchmark

    check_plot(plot)
    table = benchmark.run(replace(_settings(settings), seconds=seconds), connections, sleep=sleep / 1e3)
    report(table, _SERVED, csv_file, plot, ("requests/s", "requests/s"))


@main.command("serving-lengths")
@_options
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder of the versions of a model that answers texts with texts, as `export` writes it.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="File with a sentence a line, such as test.en.gz.",
)
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=10.0, help="Seconds of one measurement."
)
@click.option(
    "--long-clients",
    type=click.IntRange(1),
    multiple=True,
    default=(1, 2),
    help="Clients with long texts beside the one with short texts; for several loads, several times.",
)
@click.option("--clients", type=click.IntRange(1), default=32, help="Clients with all texts as they come.")
def serving_lengths(
    model: Path,
    data: Path,
    seconds: float,
    long_clients: tuple[int, ...],
    clients: int,
    csv_file: Path | None,
    plot: Path | None,
    **settings: Any,
) -> None:
    """Short texts beside long ones, to our server with a model that writes texts: p50 and p95."""
    from benchmarks import serving_lengths as benchmark
    from keras_selfattn.data.formats.records import iter_lines

    check_plot(plot)
    texts = [line for _, line in iter_lines(data)]
    chosen = replace(_settings(settings), seconds=seconds)
    table = benchmark.run(chosen, model, texts, long_clients, clients)
    shown = {name: name for name in ("p50 ms", "p95 ms", "requests/s", "failures")}
    report(table, {"times alone": "p50 × alone", **shown}, csv_file, plot, ("p50 ms", "p50 ms"))


@main.command("predict")
@_options
@click.option(
    "--model", type=click.Path(path_type=Path, exists=True), required=True, help="Run folder of texts."
)
@click.option("--rows", type=click.IntRange(1), default=60_000, help="Texts of one measurement.")
def prediction(model: Path, rows: int, csv_file: Path | None, plot: Path | None, **settings: Any) -> None:
    """Answers for a file of texts: the command `predict`, the bare graph, and a loop over `predict`."""
    from benchmarks import prediction as benchmark

    check_plot(plot)
    table = benchmark.run(_settings(settings), model, rows)
    shown = {"rows/s": "rows/s", "cpu us of one": "CPU µs of one", **_MEMORY}
    report(table, shown, csv_file, plot, ("rows/s", "rows/s"))


@main.command("quantized")
@click.option(
    "--data", type=click.Path(path_type=Path), help="Folder that holds `trec`; without it, languages alone."
)
@click.option("--rounds", type=click.IntRange(1), default=9, help="Measurements of each export.")
@click.option("--quick", is_flag=True, help="Train for an epoch or two: to see that it runs.")
def quantized(data: Path | None, rounds: int, quick: bool) -> None:
    """Text models as floats, with weights stored in int8, and quantized: accuracy, size, CPU time.

    The column "changed" counts the held-out rows that are answered differently from the model as it is.
    """
    import_tensorflow()
    from benchmarks import quantized as benchmark

    table = columns(None, *benchmark.HEADERS, right=benchmark.HEADERS[2:])
    for row in benchmark.run(data, rounds, quick=quick):
        table.add_row(*row)
    wide_console().print(table)


@main.command("equal-bits")
@click.option("--runs", type=click.IntRange(20), default=1000, help="Runs of each piece in each process.")
@click.option("--only", default="", help="Only settings whose names hold this text.")
def equal_bits(runs: int, only: str) -> None:
    """Runs of one graph on one input: how many give other bits than most, by piece and setting.

    Two processes run each setting at once, beside whatever else the machine does.
    """
    from benchmarks import equal_bits as benchmark
    from benchmarks.machine import machine, versions

    headers = ("runs", "off", "worst", "rows")
    table = columns(None, "setting", "piece", *headers, right=headers)
    for setting, piece, seen in benchmark.run(runs, lambda text: click.echo(text, err=True), only):
        table.add_row(
            setting.name, piece, str(seen.runs), str(seen.off), f"{seen.worst:.1e}", f"{seen.rows:.0%}"
        )
    console.print(machine(), versions(), sep="\n", highlight=False, soft_wrap=True)
    wide_console().print(table)


@main.command("client")
@click.option("--rounds", type=click.IntRange(1), default=7, help="Measurements of each client.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), help="CSV to write.")
def client(rounds: int, csv_file: Path | None) -> None:
    """Our client beside TensorFlow Serving's stub: import, memory, codec and calls. Takes a few minutes."""
    from benchmarks.client import compare
    from benchmarks.machine import machine, versions
    from keras_selfattn.files.atomic import write_file

    rows = compare(rounds, lambda what: click.echo(f"measuring {what}", err=True))
    console.print(machine(), versions(), sep="\n", highlight=False, soft_wrap=True)
    headers = ("ours", "stock stub", "", "stock / ours")
    table = columns(None, f"median of {rounds}", *headers, right=headers)
    for what, ours, stock, unit in rows:
        table.add_row(what, number("", ours), number("", stock), unit, f"{stock / ours:,.2f}")
    console.print(table)
    if csv_file is not None:
        lines = [f'"{what}",{ours},{stock},{unit}' for what, ours, stock, unit in rows]
        write_file(csv_file, "\n".join(["what,ours,stock,unit", *lines, ""]).encode())
        console.print(f"Wrote {csv_file}")


def _encoders(
    is_training: bool,
    data: Path | None,
    text_column: str,
    separator: str | None,
    memory: bool,
    all_cores: bool,
    csv_file: Path | None,
    plot: Path | None,
    settings: dict[str, Any],
) -> None:
    from benchmarks import encoders

    check_plot(plot)
    texts = None if data is None else ("/".join(data.parts[-2:]), _texts(data, text_column, separator))
    table = encoders.run(
        _settings(settings), training=is_training, sentences=texts, memory=memory, all_cores=all_cores
    )
    shown = {**_CPU, **_SHARE, **_WALL, **_MEMORY, **_CHECKED}
    report(table, shown, csv_file, plot, ("cpu median ms", "CPU ms of one thread"))


def _settings(options: dict[str, Any]) -> Any:
    from benchmarks.rounds import Settings

    seconds = 0.01 if options["quick"] else Settings.seconds
    return Settings(**options, seconds=seconds, progress=lambda text: click.echo(text, err=True))


def _texts(data: Path, column: str, separator: str | None) -> list[str]:
    from keras_selfattn.data.texts import read_corpus

    return read_corpus(data, column, separator=separator)
