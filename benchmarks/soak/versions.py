"""Versions of the model that come and go: whole versions, and versions that are copied file by file."""

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.soak.template import VERSION_FILE, version_text

# One in this many versions is copied in place.
_HALF_COPIED_EVERY = 4
_STEP_SECONDS = 0.4
_LEFT_SECONDS = 6.0
_KEPT = 4  # whole versions
# A request that began this long after a version was removed must not get an answer from it.
_FORGOTTEN_SECONDS = 60.0
_GRAPH, _DATA = Path("saved_model.pb"), Path("variables") / "variables.data-00000-of-00001"


class Versions:
    """Make versions in a model's folder, one after the other, as an operator with tools would.

    Args:
        template: the folder of the model.
        base: the folder of the versions.
        seconds: the seconds between two versions.

    Attributes:
        made: the number of versions that were whole at once.
        half_copied: the number of versions that were not, for some time or for good.
        newest: the newest whole version.
    """

    def __init__(self, template: Path, base: Path, seconds: float) -> None:
        self.made = self.half_copied = self.newest = 0
        self._template, self._base, self._seconds = template, base, seconds
        self._staging = base.with_name("staging")
        self._removed: dict[int, float] = {}  # the time of removal, by version
        self._whole: list[int] = []
        self._copying: set[int] = set()  # the thread that copies one may remove it, and nobody else
        self._ending = threading.Event()
        self._ways = itertools.cycle((self._finished, self._graph_alone, self._without_version, self._cut))
        self._running: list[threading.Thread] = []
        self._place(1)

    def start(self, newest_served: Callable[[], int | None]) -> None:
        """Begin to make versions, in separate threads.

        Args:
            newest_served: returns the newest version that answers; only older versions are removed.
        """
        self._thread(self._publish, newest_served)

    def stop(self) -> None:
        """Make no more versions; return when all begun ones are finished or removed."""
        self._ending.set()
        for thread in self._running:
            thread.join()

    def may_answer(self, version: int, asked: float) -> bool:
        """Return True if a version may answer a request: it is whole, and was not removed long before.

        Args:
            version: the version that answered.
            asked: when the request began, of `time.monotonic`.
        """
        if version in self._removed:
            return asked < self._removed[version] + _FORGOTTEN_SECONDS
        return version in self._whole

    def _thread(self, function: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._running = [each for each in self._running if each.is_alive()] + [thread]
        thread.start()

    def _publish(self, newest_served: Callable[[], int | None]) -> None:
        for version in itertools.count(2):
            if self._ending.wait(self._seconds):
                return
            if version % _HALF_COPIED_EVERY:
                self._place(version)
            else:
                self.half_copied += 1
                self._copying.add(version)
                self._thread(self._half_copy, version, next(self._ways))
            self._remove_before(newest_served())

    def _place(self, version: int) -> None:
        """Make a whole version under another name, and move it into its place in one step."""
        shutil.copytree(self._template, self._staging)
        (self._staging / VERSION_FILE).write_text(version_text(version), encoding="utf-8")
        self._base.mkdir(exist_ok=True)
        self.made += 1
        self._is_whole(version)
        self._staging.rename(self._base / str(version))

    def _is_whole(self, version: int) -> None:
        self._whole.append(version)
        self.newest = max(self.newest, version)

    def _remove_before(self, served: int | None) -> None:
        for version in sorted(self._whole)[:-_KEPT]:
            if served is not None and version < served and version not in self._copying:
                self._removed[version] = time.monotonic()
                self._whole.remove(version)
                shutil.rmtree(self._base / str(version))

    def _half_copy(self, version: int, way: Callable[[Path, int], Iterator[None]]) -> None:
        """Copy a version in place, step by step; if it is not whole in the end, remove it."""
        folder = self._base / str(version)
        for _ in way(folder, version):
            self._ending.wait(_STEP_SECONDS)
        if version not in self._whole:
            self._ending.wait(_LEFT_SECONDS)
            shutil.rmtree(folder)
        self._copying.discard(version)

    def _finished(self, folder: Path, version: int) -> Iterator[None]:
        """Copy slowly; the version is whole in the end."""
        yield from self._slowly(folder)
        self._is_whole(version)
        self._write_version(folder, version)

    def _without_version(self, folder: Path, version: int) -> Iterator[None]:
        """Copy all files but the last in alphabetical order, which stays empty."""
        yield from self._slowly(folder)
        self._write_version(folder, None)

    def _graph_alone(self, folder: Path, version: int) -> Iterator[None]:
        """End the copy after the graph: TensorFlow would load it, without variables."""
        yield from self._grow(folder, _GRAPH)
        self._write_version(folder, version)

    def _cut(self, folder: Path, version: int) -> Iterator[None]:
        """Copy all files, but cut the file of the variables short."""
        shutil.copytree(self._template, folder, ignore=lambda _, names: [*{_DATA.name} & {*names}])
        self._write_version(folder, version)
        content = (self._template / _DATA).read_bytes()
        (folder / _DATA).write_bytes(content[: len(content) // 2])
        yield

    def _slowly(self, folder: Path) -> Iterator[None]:
        """Copy all but the file with the version."""
        files = [path.relative_to(self._template) for path in self._template.rglob("*") if path.is_file()]
        for file in sorted(files):
            if file != VERSION_FILE:
                yield from self._grow(folder, file)

    def _grow(self, folder: Path, file: Path) -> Iterator[None]:
        content = (self._template / file).read_bytes()
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        for end in (len(content) // 2, len(content)):
            (folder / file).write_bytes(content[:end])
            yield

    def _write_version(self, folder: Path, version: int | None) -> None:
        (folder / VERSION_FILE).parent.mkdir(exist_ok=True)
        (folder / VERSION_FILE).write_text("" if version is None else version_text(version), "utf-8")
