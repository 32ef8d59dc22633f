"""Fetch models of the Hugging Face hub by name, through the package `huggingface_hub` and into its cache.

Only files that are read are fetched: safetensors, JSON, and vocabularies of the top folder, and the settings
of sentence-transformers' modules. No pickle and no code is. All settings of the package hold, such as
HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE. A server that says nothing for 10 seconds ends a request
(HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT); a broken download goes on where it stopped, five times. A
file appears in the cache once it is whole.

Reference: huggingface.co/docs/huggingface_hub, "Understand caching" and "Environment variables".
"""

import functools
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_selfattn.errors import RunError, SelfAttentionError, first_line
from keras_selfattn.extras import require
from keras_selfattn.files.hub_names import SCHEME, HubName, hub_name, near

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
CONVERSION = "`transformers.AutoModel.from_pretrained(FOLDER).save_pretrained(NEW)`"
_MODULES = "modules.json"
# Of `ModelFolder`, the sentence settings and the tokenizers, in any folder that they read.
SMALL_FILES = frozenset(
    {
        INDEX,
        _MODULES,
        "adapter_config.json",
        "added_tokens.json",
        "config.json",
        "config_sentence_transformers.json",
        "merges.txt",
        "sentencepiece.bpe.model",
        "spm.model",
        *(
            f"sentence_{kind}_config.json"
            for kind in ("albert", "bert", "camembert", "distilbert", "roberta", "xlm-roberta", "xlnet")
        ),
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.json",
        "vocab.txt",
    }
)
_OTHER_FORMS = {".bin", ".gguf", ".h5", ".msgpack", ".onnx", ".pt", ".safetensors"}
# A blob of the cache has the tag of its file for a name: of a large file its SHA-256.
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class HubFolder(os.PathLike[str]):
    """A model of the hub: as a path its folder in the cache, as a str its name with the commit.

    Without `fetch_weights` the folder may lack its weights, so that the rest can be checked before.

    Attributes:
        name: in the hub.
        commit: which of its commits.
        path: the folder in the cache.
    """

    name: str
    commit: str
    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return f"{SCHEME}{self.name}@{self.commit}"

    def fetch_weights(self) -> None:
        """Fetch the weights that are not in the cache, and check all of them.

        Raises:
            RunError: as `located` does.
        """
        with _explained(HubName(self.name, self.commit)):
            sizes = _listed(self.name, self.commit)
            wanted = {file: sizes[file] for file in self._weight_files(sizes)}
            _fetch(self, wanted)

    def _weight_files(self, sizes: Mapping[str, int]) -> list[str]:
        """Return the files with weights, as `ModelFolder.tensors` reads them."""
        of_modules = [f"{path}/{WEIGHTS}" for path in _module_paths(self)]
        found = [name for name in of_modules if name in sizes]
        if INDEX not in sizes:
            return [WEIGHTS, *found]
        shards = _read_json(self.path / INDEX, "weight_map")
        return [
            *sorted({name for name in shards.values() if isinstance(name, str) and name in sizes}),
            *found,
        ]


def located(given: str | os.PathLike[str], revision: str | None = None) -> Path | HubFolder:
    """Return the path that is given, or the folder of the hub's model whose name is.

    All files of the model but its weights are then in the cache. Without a network, or with HF_HUB_OFFLINE,
    a whole copy in the cache is used.

    Args:
        given: a path, a name as `hub_name` tells it, or what this function returned.
        revision: a branch, a tag or a commit of a name; None for the newest.

    Raises:
        MissingExtraError: for a name, if `huggingface_hub` is not installed.
        ConfigError: as `hub_name` does.
        RunError: if the hub cannot be reached, or has no such model, revision or readable weights; or a file
            cannot be written, or is damaged.
    """
    if isinstance(given, HubFolder):
        return given
    name = hub_name(given, revision)
    if name is None:
        return Path(given)
    fetching = f"{_not_here(name)}Fetching {name.name} from the Hugging Face hub"
    require("hub", fetching, hint=", or give a folder that is here")
    with _explained(name):
        return _fetched(name)


def _not_here(name: HubName) -> str:
    """Return a sentence for who meant a folder; "" if there is one of the name, after `hf://`."""
    path = Path(name.name)
    return "" if path.exists() else f"There is no folder {path} here.{near(path)} "


def _fetched(name: HubName) -> HubFolder:
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.file_download import repo_folder_name

    revision = HfApi().resolve_revision(name.name, revision=name.revision)
    place = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=name.name, repo_type="model"))
    folder = HubFolder(name.name, revision.resolved, place / "snapshots" / revision.resolved)
    try:
        sizes = _listed(name.name, folder.commit)
    except LookupError:
        _check_cache(0)
        # It also keeps the list of all files, which says later whether the copy is whole.
        snapshot_download(name.name, revision=revision, allow_patterns="config.json")
        sizes = _listed(name.name, folder.commit)
    _check_kinds(name, sizes)
    _fetch(folder, {file: size for file, size in sizes.items() if file in SMALL_FILES})
    _fetch(
        folder,
        {
            file: sizes[file]
            for file in (f"{path}/config.json" for path in _module_paths(folder))
            if file in sizes
        },
    )
    return folder


def _listed(name: str, commit: str) -> dict[str, int]:
    """Return the bytes of all files of a commit by name, from the list in the cache.

    Raises:
        LookupError: if the cache has no such list.
    """
    from huggingface_hub import get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        return {file.path: file.size for file in get_cached_repo_tree(name, revision=commit)}
    except CachedRepoTreeNotFoundError as error:
        raise LookupError(name) from error


def _check_kinds(name: HubName, sizes: Mapping[str, int]) -> None:
    """Raise RunError for a model whose weights or config cannot be read, before anything large is fetched."""
    if "config.json" not in sizes:
        raise RunError(
            f"{name} has no config.json in the hub, so it is no model that can be read. Look at its files."
        )
    if WEIGHTS in sizes or INDEX in sizes:
        return
    if any(file in sizes for file in PICKLES):
        raise RunError(
            f"The weights of {name} are a pickle ({', '.join(file for file in PICKLES if file in sizes)}), "
            "which is neither fetched nor opened here, because it can run code. Convert it, where you trust "
            f"it: `hf download {name.name} --local-dir FOLDER`, then {CONVERSION}, and give NEW."
        )
    held = ", ".join(sorted({Path(file).suffix for file in sizes} & _OTHER_FORMS)) or "no known form"
    raise RunError(
        f"{name} has no {WEIGHTS} in the hub, the weights that can be read; its own are in {held}. Give the "
        "name of the model that it was converted from."
    )


def _module_paths(folder: HubFolder) -> list[str]:
    """Return the places of sentence-transformers' modules; what else the file may hold is checked later."""
    modules = _read_json(folder.path / _MODULES, None)
    paths = [each.get("path") for each in modules if isinstance(each, dict)] if modules else []
    return [path for path in paths if isinstance(path, str) and path]


def _read_json(path: Path, field: str | None) -> Any:
    """Return a field of a JSON file, or all of it; {} for what is not there or not JSON."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
        return found if field is None else dict(found[field])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _fetch(folder: HubFolder, sizes: Mapping[str, int]) -> None:
    """Fetch those files that the cache lacks, and check all of them.

    In the main thread, one after the other: Ctrl-C would not end the threads of `snapshot_download`.
    """
    from huggingface_hub import hf_hub_download

    lacking = [file for file in sizes if not (folder.path / file).exists()]
    if lacking:
        _check_cache(sum(sizes[file] for file in lacking))
    for file in lacking:
        hf_hub_download(folder.name, file, revision=folder.commit)
    for file, size in sizes.items():
        _check_file(folder.path / file, size)


def _check_cache(needed: int) -> None:
    """Raise RunError if the cache cannot be written, or its disk lacks the bytes that are needed."""
    from huggingface_hub.constants import HF_HUB_CACHE

    Path(HF_HUB_CACHE).mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(HF_HUB_CACHE).free
    if free < needed:
        raise RunError(
            f"{needed / 1e6:,.0f} MB are to be fetched, and the disk of the cache {HF_HUB_CACHE} has "
            f"{free / 1e6:,.0f} MB. Free some, or set HF_HOME to a folder on another disk."
        )


def _check_file(file: Path, size: int) -> None:
    """Raise RunError for a file of another size or SHA-256 than the hub's."""
    found = file.stat()
    # The first link alone: behind it may be a store with names of another kind.
    tag = Path(os.readlink(file)).name if file.is_symlink() else ""
    if found.st_size != size:
        reason = f"it has {found.st_size:,} bytes, the hub's file {size:,}"
    elif _SHA256.fullmatch(tag) and _sha256(file, found.st_size, found.st_mtime_ns) != tag:
        reason = "its SHA-256 is not the one that the hub names"
    else:
        return
    raise RunError(f"{file} is damaged: {reason}. Remove {file.resolve()}, and start again to fetch it anew.")


@functools.lru_cache(maxsize=64)  # each trial of a tuning asks again
def _sha256(file: Path, _size: int, _changed: int) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def _explained(name: HubName) -> Iterator[None]:
    """Raise RunError, with the next step, for what `huggingface_hub` raises."""
    try:
        yield
    except SelfAttentionError:
        raise
    # The package of its connections, whose errors these are, has changed between versions.
    except Exception as error:
        raise RunError(_in_words(name, error)) from error


def _in_words(name: HubName, error: Exception) -> str:
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError):  # also an OSError
        return _refused(name, error, error.response.status_code)
    if isinstance(error, OSError) and error.errno is not None:
        return (
            f"{name} cannot be written to the cache {HF_HUB_CACHE}: {first_line(error)}. Set HF_HOME to a "
            "folder that can be written, or mend this one."
        )
    if type(error) is OSError:  # a download of another size than the hub names
        return f"{name} cannot be fetched: {first_line(error)}. Try again: what is whole stays in the cache."
    return _unreachable(name, error)


def _refused(name: HubName, error: Exception, status: int) -> str:
    """Return why the hub's answer is no file."""
    from huggingface_hub import errors
    from huggingface_hub.constants import ENDPOINT

    log_in = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        return f"{name} is gated. Accept its terms at {ENDPOINT}/{name.name}, then {log_in}."
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"{_not_here(name)}{ENDPOINT} has no model {name.name}, or a private one. Give another name or "
            f"folder, or {log_in}."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{name}: the model has no such revision. Its branches and tags are at {ENDPOINT}/{name.name}."
    step = f"If it needs an account, {log_in}" if status in (401, 403) else "Try again later"
    return f"{name} cannot be fetched: {ENDPOINT} answers {status} ({first_line(error)}). {step}."


def _unreachable(name: HubName, error: Exception) -> str:
    """Return why a model is neither in the cache nor to be had."""
    from huggingface_hub import is_offline_mode
    from huggingface_hub.constants import ENDPOINT, HF_HUB_CACHE

    whole = f"the cache {HF_HUB_CACHE} holds no whole copy of it"
    if is_offline_mode():
        return (
            f"{name} cannot be fetched, since HF_HUB_OFFLINE is set, and {whole}. Fetch it once without "
            "HF_HUB_OFFLINE, or give a folder that is here."
        )
    root = error
    while root.__cause__ is not None and isinstance(root.__cause__, Exception):
        root = root.__cause__
    return (
        f"{name} cannot be fetched: {ENDPOINT} does not answer ({first_line(root)}), and {whole}. Look at "
        "the network and at HF_ENDPOINT, or give a folder that is here."
    )
