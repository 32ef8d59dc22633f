"""`python -m benchmarks soak`: run our server under load for minutes, and check each of its promises."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_selfattn.asking.exit_status import FAILED
from keras_selfattn.cli.shared.console import columns, console

if TYPE_CHECKING:
    from benchmarks.soak.promises import Promise
    from benchmarks.soak.run import Soak

_VERDICTS = {True: "kept", False: "BROKEN", None: "too short to tell"}
_POSITIVE = click.FloatRange(0, min_open=True)


@click.command("soak")
@click.option("--minutes", type=_POSITIVE, default=15.0, help="How long clients ask, with each --workers.")
@click.option(
    "--workers",
    type=click.IntRange(1),
    multiple=True,
    default=(1, 2),
    help="Processes of the server; for several soaks in turn, several times.",
)
@click.option("--grpc-clients", type=click.IntRange(1), default=32, help="Clients over gRPC.")
@click.option("--rest-clients", type=click.IntRange(1), default=8, help="Clients over REST.")
@click.option("--version-seconds", type=_POSITIVE, default=2.0, help="Seconds between two versions.")
@click.option(
    "--kill-seconds",
    type=_POSITIVE,
    default=60.0,
    help="Seconds between two killed workers; one process is not killed.",
)
@click.option("--sample-seconds", type=_POSITIVE, default=10.0, help="Seconds between two looks.")
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), help="CSV to write the looks to."
)
def soak(workers: tuple[int, ...], csv_file: Path | None, **settings: Any) -> None:
    """Our server for minutes under load, with new versions, half-copied ones and killed workers.

    Clients ask without a pause and know the right answer of each version. Every fourth version is copied in
    place, file by file, and some of these are never finished. What the server promises is printed with what
    was found; if a promise is broken the exit status is 1.
    """
    from benchmarks.machine import machine, versions
    from benchmarks.process import WorkerError
    from benchmarks.soak.run import Settings, run
    from benchmarks.soak.samples import write_csv
    from keras_selfattn.errors import ConfigError

    if not sys.platform.startswith("linux"):
        raise ConfigError("bench soak reads what Linux tells of processes. Run it there.")
    for line in (machine(), versions()):
        console.print(line, highlight=False, soft_wrap=True)
    made = Settings(**settings, progress=lambda line: click.echo(line, err=True))
    found: dict[str, Soak] = {}
    try:
        for each in run(made, workers):
            found[each.name] = each
            _print(each)
    except WorkerError as error:
        raise ConfigError(f"The soak could not begin: {error}") from None
    if csv_file is not None:
        write_csv(csv_file, {name: each.samples for name, each in found.items()})
        console.print(f"Wrote {csv_file}")
    if any(promise.kept is False for each in found.values() for promise in each.promises):
        sys.exit(FAILED)


def _print(found: "Soak") -> None:
    console.print(f"\n{found.name}", style="bold", highlight=False)
    table = columns(None, "promise", "found", "")
    for promise in found.promises:
        table.add_row(*_cells(promise))
    console.print(table)


def _cells(promise: "Promise") -> tuple[str, str, str]:
    return promise.what, promise.found, _VERDICTS[promise.kept]
