"""The extras of an installation: the packages of each, and errors that name those missing or unfit.

The metadata of packages says which versions each needs; installing another program may have changed these.
"""

import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any

from keras_selfattn.errors import MissingExtraError, PackageMisfitError, SelfAttentionError, first_line

if TYPE_CHECKING:
    from importlib.metadata import Distribution

# This project's own package: that of the client alone has another name.
_ROOT = __name__.partition(".")[0].replace("_", "-")

MODULES = {
    "train": ("tensorflow", "tensorflow_serving", "sklearn", "scipy", "safetensors", "PIL"),
    "quickstart": ("babel", "django", "stopwordsiso"),
    "serve": ("tensorflow", "tensorflow_serving", "grpc_health", "grpc_reflection", "httptools", "uvicorn"),
    "client": ("grpc", "google.protobuf"),
    "plots": ("matplotlib",),
    "jax": ("jax",),
    "onnx": ("onnx", "onnxruntime", "tf2onnx"),
    "parquet": ("pyarrow",),
    "pieces": ("tokenizers",),
    "audio": ("soundfile",),
    "bleu": ("sacrebleu",),
    "hub": ("huggingface_hub",),
    "ray": ("ray",),
    "stores": ("fsspec",),
    "tracing": ("opentelemetry",),
}
"""The modules that an extra of setup.cfg brings. The first extra that brings a module is named for it."""

EXTRA_OF_COMMAND = {
    "quickstart": "quickstart",
    "serve": "serve",
    "open": "serve",
    "query": "client",
    "status": "client",
    "metadata": "client",
}
"""The extra of a command of `keras-selfattn`; it is "train" for the others."""


def extras_of(command: str) -> list[str]:
    """Return the extras whose packages a command may import: its own, and others that are installed.

    Example:

        >>> extras_of("query")[0]
        'client'
    """
    own = EXTRA_OF_COMMAND.get(command, "train")
    return [own, *(extra for extra in MODULES if extra != own and not any(map(_is_missing, MODULES[extra])))]


_BACKENDS = ("tensorflow", "jax", "torch")


def install(extra: str) -> str:
    """Return the command that installs an extra.

    Example:

        >>> install("serve")
        "pip install 'keras-selfattn[serve]'"
    """
    return f"pip install 'keras-selfattn[{extra}]'"


def require(extra: str, needed_by: str, *modules: str, hint: str = "") -> None:
    """Raise an error if a module that an extra brings is not installed. Nothing is imported.

    Args:
        extra: a name of `MODULES`.
        needed_by: the beginning of the message, such as the name of a module.
        modules: those that are needed; by default all of the extra.
        hint: the end of the message.

    Raises:
        MissingExtraError: with the command that installs the extra.

    Example:

        >>> require("client", "keras_selfattn.serving.client")
    """
    for module in modules or MODULES[extra]:
        if _is_missing(module):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                raise MissingExtraError(
                    f"{needed_by} needs {module}, which is not installed: {install(extra)}{hint}"
                ) from error


def _is_missing(module: str) -> bool:
    if sys.modules.get(module) is not None:
        return False
    try:
        return find_spec(module) is None
    except ModuleNotFoundError:  # its parent is missing
        return True


def missing_extra(error: ModuleNotFoundError, command: str = "") -> str | None:
    """Return the extra that brings the module of an error, or None if no extra does, or it is installed.

    Args:
        error: of an import.
        command: the command of `keras-selfattn` that failed; its own extra comes first.

    Example:

        >>> missing_extra(ModuleNotFoundError(name="uvicorn.no_such"))  # uvicorn is installed
    """
    module = f"{error.name}."
    first = EXTRA_OF_COMMAND.get(command, "train")
    for extra in (first, *MODULES):
        for each in MODULES[extra]:
            if (module.startswith(f"{each}.") or each.startswith(module)) and _is_missing(each):
                return extra
    return None


def import_keras() -> None:
    """Import Keras, or say which backend is missing.

    Raises:
        PackageMisfitError: if packages of Keras do not fit.
        MissingExtraError: if the backend that Keras is to use is not installed.
    """
    try:
        with importing("", "Keras"):
            importlib.import_module("keras")
    except ModuleNotFoundError as error:
        if error.name not in _BACKENDS:
            raise
        others = [name for name in _BACKENDS if name != error.name and not _is_missing(name)]
        if others:
            hint = f"set KERAS_BACKEND={others[0]}, which is installed"
        else:
            hint = f"use another backend: {install('jax')} and KERAS_BACKEND=jax"
        raise MissingExtraError(
            f"Keras computes with {error.name}, which is not installed: pip install {error.name}; or {hint}"
        ) from error


@dataclass(frozen=True)
class Misfit:
    """A package whose installed version another one cannot use.

    Attributes:
        name: the package.
        found: its installed version; None if it is not installed.
        needed_by: a package that cannot use it, with its version.
        needed: the versions that this one needs, such as ">=6.33"; empty for any.
        mended: the versions that all packages of the extra can use.
        against: another program with its version and the versions that it needs, which `mended` excludes.
    """

    name: str
    found: str | None
    needed_by: str
    needed: str
    mended: str
    against: str = ""

    @property
    def pair(self) -> set[str]:
        """The names of both packages."""
        return {self.name, _normal(self.needed_by.partition(" ")[0])}

    def __str__(self) -> str:
        there = "is not installed" if self.found is None else f"is {self.found}"
        return f"{self.needed_by} needs {self.name}{self.needed}, and {self.name} {there}"


def misfits(extra: str, path: Sequence[str] | None = None) -> list[Misfit]:
    """Return the packages that an extra needs, directly or not, and that are missing or of a wrong version.

    Args:
        extra: of this project's own package.
        path: folders with the packages; by default those of this Python.

    Returns:
        Nothing, too, if this project is not installed as a package, or nothing can read versions.
    """
    reader = _versions_reader()
    if reader is None:
        return []
    asked = _requirements(extra, reader, path)
    found: list[Misfit] = []
    for name, needs in asked.items():
        package = _package(name, path)
        version = None if package is None else package.version
        unmet = [need for need in needs if version is None or not need.versions.contains(version, True)]
        if unmet:
            mended = _common(need.versions for need in needs)
            against = _against(name, mended, asked, reader, path) if version else ""
            first = unmet[0]
            found.append(Misfit(name, version, first.by, str(first.versions), mended, against))
    return found


def misfit_error(error: BaseException, extras: Iterable[str], needed_by: str) -> PackageMisfitError | None:
    """Return the error that explains a failed import by packages that do not fit; None if they fit.

    Args:
        error: what the import raised.
        extras: first the one that is needed; then those that count if a package of theirs raised the error.
        needed_by: the beginning of the message.
    """
    modules = _modules_of(error.__traceback__)
    for place, extra in enumerate(extras):
        found = misfits(extra)
        if place:  # what another extra lacks need not be the cause
            found = [each for each in found if not modules.isdisjoint(each.pair)]
        if found:
            return PackageMisfitError(_sentence(needed_by, found, error))
    return None


@contextmanager
def importing(extra: str, needed_by: str) -> Iterator[None]:
    """Explain an import that fails because packages do not fit; any other error stays as it is.

    Args:
        extra: brings the packages.
        needed_by: the beginning of the message, such as the name of a module.

    Raises:
        PackageMisfitError: with the command that mends it.
    """
    try:
        yield
    except SelfAttentionError:
        raise
    except Exception as error:
        explained = misfit_error(error, [extra], needed_by)
        if explained is None:
            raise
        raise explained from error


def raised_by_import(traceback: TracebackType | None) -> bool:
    """Return True if an error was raised while a module was being imported."""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "<module>":
            return True
        traceback = traceback.tb_next
    return False


def _modules_of(traceback: TracebackType | None) -> set[str]:
    """Return the names of the packages, but for this project's, whose modules are in a traceback."""
    modules: set[str] = set()
    while traceback is not None:
        modules.add(traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0])
        traceback = traceback.tb_next
    from importlib.metadata import packages_distributions

    packages = packages_distributions()
    return {_normal(package) for module in modules for package in packages.get(module, [])} - {_ROOT}


def _sentence(needed_by: str, found: Sequence[Misfit], error: BaseException) -> str:
    wanted = " ".join(f"'{each.name}{each.mended}'" for each in found)
    others = "; ".join(dict.fromkeys(each.against for each in found if each.against))
    against = f". An environment of its own is needed for {others}" if others else ""
    return (
        f"{needed_by} cannot be imported, because packages do not fit: {'; '.join(map(str, found))}. "
        f"Mend it: pip install {wanted}{against} ({type(error).__name__}: {first_line(error)})"
    )


@dataclass(frozen=True)
class _Need:
    """A need of one package for another: the package with its version, and a SpecifierSet."""

    by: str
    versions: Any


def _versions_reader() -> Any:
    """Return the package that reads requirements: `packaging`, or pip's copy of it; None without both."""
    try:
        from packaging import requirements
    except ImportError:
        try:
            from pip._vendor.packaging import requirements  # pyright: ignore[reportMissingImports]
        except ImportError:
            return None
    return requirements


def _package(name: str, path: Sequence[str] | None) -> "Distribution | None":
    """Return an installed package; of several, the one that Python imports."""
    return next(_packages(path, name=name), None)


def _packages(path: Sequence[str] | None, **sought: str) -> "Iterator[Distribution]":
    """Yield the installed packages, without folders that a broken installation has left without metadata."""
    # Imported here, since the client is imported in less time without it.
    from importlib.metadata import Distribution, DistributionFinder

    asked: dict[str, Any] = sought if path is None else {**sought, "path": list(path)}
    for package in Distribution.discover(context=DistributionFinder.Context(**asked)):
        if {"Name", "Version"} <= {*package.metadata}:
            yield package


def _requirements(extra: str, reader: Any, path: Sequence[str] | None) -> dict[str, list[_Need]]:
    """Return what the packages of an extra need, by the name of the needed package, nearest first."""
    found: dict[str, list[_Need]] = {}
    todo = [(_ROOT, frozenset([extra]))]
    seen = set(todo)
    for name, extras in todo:
        package = _package(name, path)
        if package is None:
            continue
        for need in _needs_of(package, {"", *extras}, reader):
            key = _normal(need.name)
            if key != _ROOT:
                found.setdefault(key, []).append(_Need(f"{name} {package.version}", need.specifier))
            following = (key, frozenset(need.extras))
            if following not in seen:
                seen.add(following)
                todo.append(following)
    return found


def _needs_of(package: "Distribution", extras: Iterable[str], reader: Any) -> Iterator[Any]:
    """Yield the requirements of a package on this machine."""
    for text in package.requires or []:
        try:
            need = reader.Requirement(text)
        except ValueError:  # of a time before the present rules
            continue
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras):
            yield need


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _common(versions: Iterable[Any]) -> str:
    """Return what several SpecifierSets have in common, without bounds that others contain."""
    everything = {(each.operator, each.version) for one in versions for each in one}
    kept = {each for each in everything if each[0] not in (">=", "<", "!=")}
    for operator, strictest in ((">=", max), ("<", min)):
        bounds = [version for each, version in everything if each == operator]
        if bounds:
            kept.add((operator, strictest(bounds, key=_order)))
    return ",".join(sorted((f"{operator}{version}" for operator, version in kept), reverse=True))


def _order(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _against(name: str, mended: str, asked: Iterable[str], reader: Any, path: Sequence[str] | None) -> str:
    """Return another installed program that needs versions of a package that `mended` excludes, or ""."""
    lowest = next((bound[2:] for bound in mended.split(",") if bound.startswith(">=")), None)
    if lowest is None:
        return ""
    known = {_ROOT, *asked}
    for package in _packages(path):
        other = _normal(package.metadata["Name"])
        if other in known:
            continue
        for need in _needs_of(package, {"", *(package.metadata.get_all("Provides-Extra") or [])}, reader):
            if _normal(need.name) == name and not need.specifier.contains(lowest, True):
                return f"{other} {package.version}, which needs {name}{need.specifier}"
    return ""
