"""Answer a file of rows, or a folder of such files, in bounded memory; go on where a killed run stopped."""

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from keras_selfattn.batch.journal import Journal, open_journal, published, writing
from keras_selfattn.batch.length_batches import BatchModel
from keras_selfattn.batch.part import Answered, Part, answered
from keras_selfattn.batch.row_files import ENDINGS, PARQUET, arrow
from keras_selfattn.batch.row_writers import writer_for
from keras_selfattn.data.formats.records import TEXT_LINES
from keras_selfattn.errors import ConfigError, DataError
from keras_selfattn.files.atomic import check_writable, is_stream


class Engine(Protocol):
    """Answers the windows of parts, in order."""

    def part(self, file: Path, target: Path, *, named: bool) -> Part:
        """Return a part, after a check that its columns fit the model."""
        ...

    def answered(self, part: Part, place: Sequence[int] | None) -> Generator[Answered, None, None]:
        """Yield the windows of a part from a place on, with their answers."""
        ...


class LocalEngine:
    """Answers in threads of this process.

    Args:
        model: answers batches.
        make_part: from a file and its target to the part.
        threads: batches at once.
    """

    def __init__(self, model: BatchModel, make_part: Callable[..., Part], threads: int) -> None:
        self._model, self.part, self._threads = model, make_part, threads

    def answered(self, part: Part, place: Sequence[int] | None) -> Generator[Answered, None, None]:
        """As in `Engine`."""
        with ThreadPoolExecutor(self._threads) as executor:
            yield from answered(part, place, self._model, executor)


@dataclass(frozen=True)
class RunProgress:
    """The progress of a run.

    Args:
        rows: rows with answers, of earlier runs too.
        failed: rows without.
        share: of the input that is done, from 0 to 1.
        cut: written texts that the model's bound of symbols cut, of earlier runs too.
    """

    rows: int
    failed: int
    share: float
    cut: int = 0


@dataclass(frozen=True)
class Files:
    """The files to read and the ones to write.

    Args:
        source: a file, or a folder of files.
        output: a file, or a folder if `source` is one.
        overwrite: True replaces an existing output once the new one is whole.
    """

    source: Path
    output: Path
    overwrite: bool = False

    def check(self) -> None:
        """Raise an error, before long work, for files that cannot be read or written."""
        parts = self.parts()
        if any(PARQUET in (file.suffix.lower(), target.suffix.lower()) for file, target in parts):
            arrow()
        for _, target in parts:
            writer_for(target, (), ())
        self.check_places()
        if self.output.exists() and not self.overwrite:
            raise DataError(
                f"{self.output} exists already. Replace it with --overwrite, or choose another --output."
            )
        if self.output.is_dir():
            foreign = next((each for each in self.output.iterdir() if not _is_table(each)), None)
            if foreign is not None:
                raise DataError(
                    f"{self.output} is no folder of parts, since it holds {foreign.name}: it is not "
                    "replaced. Choose another --output."
                )
        with writing(self.output):
            check_writable(self.output)

    def check_places(self) -> None:
        """Raise ConfigError if the output cannot be what the source makes it."""
        output, folder = self.output, self.source.is_dir()
        if output.exists() and self.source.exists() and output.samefile(self.source):
            raise ConfigError(
                f"--output must be another place than --file. Received {str(output)!r} for both."
            )
        if folder and self.source.resolve() in output.resolve().parents:
            raise ConfigError(
                f"--output must be outside --file, whose files are all read. Received {str(output)!r}."
            )
        parent = next((parent for parent in output.parents if parent.exists()), output.parent)
        if not parent.is_dir():
            raise ConfigError(f"--output must be in a folder. {parent} is a file.")
        if output.exists() and output.is_dir() != folder:
            wanted = "a folder" if folder else "a file"
            raise ConfigError(f"--output must be {wanted}, since --file is one. Received {str(output)!r}.")
        if output.exists() and not folder and is_stream(output):
            raise ConfigError(
                f"--output must be a file, which is written piece by piece. Received {str(output)!r}; "
                "`query` writes to standard output."
            )

    def parts(self) -> list[tuple[Path, Path]]:
        """Return each input with the name of its output."""
        if not self.source.exists():
            raise DataError(f"There is no file {self.source}. Current folder: {Path.cwd()}.")
        if not self.source.is_dir():
            _check_ending(self.source)
            return [(self.source, self.output)]
        files = sorted(file for file in self.source.iterdir() if file.name[0] not in "._")
        if not files:
            raise DataError(f"{self.source} is empty. Give a file, or a folder of files.")
        for file in files:
            _check_ending(file)
        targets = [_target_of(file) for file in files]
        if twice := [name for name, count in Counter(targets).items() if count > 1]:
            raise DataError(f"{self.source} has two files whose answers would be {twice[0]}. Rename one.")
        return list(zip(files, targets, strict=True))

    def identity(self) -> list[list[Any]]:
        """Return name, size and time of each input, to tell whether it is the same later."""
        known = [(file, file.stat()) for file, _ in self.parts()]
        return [[file.name, stat.st_size, stat.st_mtime_ns] for file, stat in known]


def predict_files(
    files: Files,
    made_of: Mapping[str, Any],
    engine: Callable[[], AbstractContextManager[Engine]],
    progress: Callable[[RunProgress], None] = lambda _: None,
) -> RunProgress:
    """Write the answers of all files, and return the number of rows.

    Args:
        files: to read and to write.
        made_of: model and options, as JSON types: a run goes on only with the same.
        engine: makes the engine, after all that can be checked before.
        progress: called after each window.

    Raises:
        DataError: if a file cannot be read or written; the rows so far are kept for the next run.
    """
    files.check_places()
    identity = files.identity()
    whole = {"input": identity, **made_of}
    if (state := published(files.output, whole)) is not None:
        return RunProgress(state.rows, state.failed, 1.0, state.cut)
    files.check()
    with open_journal(files.output, whole, overwrite=files.overwrite) as journal:
        parts = files.parts()
        if journal.state.part < len(parts):
            with engine() as ready:
                _answer_parts(files, parts, journal, ready, progress)
        if files.identity() != identity:
            raise DataError(f"{files.source} was changed while it was read. Begin anew with --overwrite.")
        journal.publish(overwrite=files.overwrite, whole_folder=files.source.is_dir())
        state = journal.state
        return RunProgress(state.rows, state.failed, 1.0, state.cut)


def _answer_parts(
    files: Files,
    parts: Sequence[tuple[Path, Path]],
    journal: Journal,
    engine: Engine,
    progress: Callable[[RunProgress], None],
) -> None:
    sizes = [max(1, file.stat().st_size) for file, _ in parts]
    # All are checked before the first is answered, which may take hours.
    made = [
        engine.part(file, target, named=len(parts) > 1 or files.source.is_dir()) for file, target in parts
    ]
    for number in range(journal.state.part, len(parts)):
        before, size = sum(sizes[:number]), sizes[number]

        def told(share: float, before: int = before, size: int = size) -> None:
            state = journal.state
            progress(RunProgress(state.rows, state.failed, (before + share * size) / sum(sizes)))

        if not journal.state.read:
            _answer_part(made[number], journal, engine, told)
        journal.end_part(parts[number][1].name, made[number].writer().finish)


def _answer_part(part: Part, journal: Journal, engine: Engine, progress: Callable[[float], None]) -> None:
    total = max(1, part.rows().total)
    with journal.writing() as draft:
        place = journal.state.place
        progress(place[0] / total if place else 0.0)
        if place is None and journal.state.rows_bytes == 0:
            draft.append(part.writer().header(), b"")
        # Closed at once on Ctrl-C, so that no thread works on.
        with contextlib.closing(engine.answered(part, place)) as windows:
            for window in windows:
                draft.append(window.rows, window.errors)
                draft.commit(window.place, rows=window.count, failed=window.failed, cut=window.cut)
                progress(window.done / total)
        draft.commit(journal.state.place, rows=0, failed=0, read=True)


def _check_ending(file: Path) -> None:
    if not _is_table(file):
        raise DataError(
            f"{file} is no table of rows. Give a file, or a folder of files, ending in {', '.join(ENDINGS)}; "
            f"series, tokens and names of images are columns of such tables.{_next_step(file)}"
        )


def _next_step(file: Path) -> str:
    """Return how files of annotation tools become rows, from any of which a run can go on; "" for others."""
    if file.suffix.lower() == ".json":
        return (
            " A list of tasks, as Label Studio writes it, becomes a row a line with: "
            f"jq -c '.[] | {{id}} + (.data // .)' {file.name} > {file.stem}.jsonl"
        )
    if file.suffix.lower() == ".ann":
        return (
            " A folder of brat has a text in each .txt, where the lines of a .txt are rows here. Write each "
            'text as a row of a .jsonl, {"id": "1.txt", "text": "Ada wrote."}: its spans come back by its id.'
        )
    return ""


def _target_of(file: Path) -> Path:
    """Return the name of a file's answers in a folder: a .txt, which has no columns, becomes JSON Lines."""
    return Path(f"{file.name}.jsonl" if file.suffix.lower() == TEXT_LINES else file.name)


def _is_table(file: Path) -> bool:
    return file.suffix.lower() in ENDINGS and file.is_file()
