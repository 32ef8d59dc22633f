"""A folder of the Hugging Face kind: settings as JSON, and tensors in safetensors files.

No pickle is opened. A model of the Hugging Face hub is fetched by its name: its weights when they are read.

Reference: huggingface.co/docs/safetensors, "Format"; sbert.net, "modules.json".
"""

import json
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from keras_selfattn.errors import ConfigError, RunError
from keras_selfattn.files.folder_kinds import A_FOLDER
from keras_selfattn.files.hub_folders import CONVERSION, INDEX, PICKLES, WEIGHTS, HubFolder, located
from keras_selfattn.files.hub_names import near

_OF_MODULES = "sentence_transformers.SentenceTransformer(FOLDER).save(NEW)"
_OTHER_WEIGHTS = {"ONNX": ".onnx", "OpenVINO": "openvino_model.xml", "TensorFlow": ".h5", "GGUF": ".gguf"}


class ModelFolder:
    """The files of a pretrained model.

    Args:
        path: the folder, or a name of the Hugging Face hub, as `located` tells it.

    Attributes:
        path: the folder.
        config: the content of `config.json`.

    Raises:
        RunError: if there is no such folder, or it has no `config.json`; and as `located` does.
        ConfigError: for broken JSON.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._place = located(path)
        self.path = Path(self._place)
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file. Give a model's folder, with config.json and {WEIGHTS}.")
        if not self.path.exists():
            raise RunError(f"There is no folder {self.path}.{near(self.path)} Give {A_FOLDER}.")
        if (self.path / "model.keras").is_file():
            raise RunError(
                f"{self.path} is a run folder, not a pretrained model's. Read it with `models.load`, or give "
                "the folder that its training began with."
            )
        if not (self.path / "config.json").is_file():
            raise RunError(
                f"{self.path} has no config.json. Give the folder of a model, with config.json and {WEIGHTS}."
            )
        self.config: Mapping[str, Any] = self.json("config.json")

    def json(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file whose top level is an object; none if there is no such file."""
        found = self._json(name, {})
        if not isinstance(found, dict):
            raise ConfigError(f"{self.path / name} must hold a JSON object. It holds {type(found).__name__}.")
        return found

    def modules(self) -> list[dict[str, Any]]:
        """Return the entries of sentence-transformers' `modules.json`; none if there is no such file."""
        found = self._json("modules.json", [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise ConfigError(f"{self.path / 'modules.json'} must hold a list of JSON objects.")
        return found

    def tensors(self, module: str = "") -> "Tensors":
        """Return the tensors of all safetensors files, or of those in a module's subfolder.

        Raises:
            RunError: if there are none, a shard is missing, or a file is broken; and as
                `HubFolder.fetch_weights` does.
        """
        if isinstance(self._place, HubFolder):
            self._place.fetch_weights()
        files = [self.path / module / WEIGHTS]
        if not module and (self.path / INDEX).is_file():
            shards = self.json(INDEX).get("weight_map")
            names: list[Any] = list(shards.values()) if isinstance(shards, dict) else [None]
            if not all(isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name) for name in names):
                raise ConfigError(
                    f"{self.path / INDEX} must name a file of the folder for each tensor, in `weight_map`."
                )
            files = [self.path / name for name in sorted(set(names))]
        missing = [str(file.relative_to(self.path)) for file in files if not file.is_file()]
        if missing:
            raise RunError(f"{self.path} lacks {', '.join(missing)}. {self._advice(module)}")
        return Tensors(files)

    def _advice(self, module: str) -> str:
        if module and any((self.path / module / name).is_file() for name in PICKLES):
            return (
                "The weights of this module are a pickle, which is never opened here, because it can run "
                f"code. Convert the folder, where you trust it: `{_OF_MODULES}`."
            )
        if any((self.path / name).is_file() for name in PICKLES):
            return (
                "Its weights are a pickle, which is never opened here, because it can run code. Convert it, "
                f"where you trust it: {CONVERSION}."
            )
        others = {kind: sorted(self.path.rglob(f"*{end}")) for kind, end in _OTHER_WEIGHTS.items()}
        for kind, files in others.items():
            if files and not any(self.path.glob("*.safetensors")):
                return (
                    f"It holds weights for {kind} alone ({files[0].relative_to(self.path)}), which cannot be "
                    f"read. Fetch the model's {WEIGHTS}, from where the {kind} file was converted from."
                )
        return "Fetch the folder again, with all of its .safetensors files."

    def _json(self, name: str, otherwise: Any) -> Any:
        file = self.path / name
        if not file.is_file():
            return otherwise
        try:
            return json.loads(file.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{file} is not JSON: {error}.") from error


class Tensors:
    """The tensors of safetensors files, mapped into memory and read one at a time; a context manager.

    Args:
        files: the files.

    Attributes:
        shapes: the shape of each tensor by name.
        dtypes: its type by name, as safetensors writes it, such as "F32".

    Raises:
        RunError: for a broken file.
    """

    def __init__(self, files: list[Path]) -> None:
        self._stack = ExitStack()
        self._of: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, str] = {}
        with ExitStack() as opened:
            for file in files:
                try:
                    tensors = opened.enter_context(safe_open(file, framework="numpy"))
                except (SafetensorError, OSError) as error:
                    raise RunError(
                        f"{file} is not a whole safetensors file: {error}. Fetch it again."
                    ) from error
                for name in tensors.keys():  # noqa: SIM118  it is no mapping
                    self._of[name] = tensors
                    self.shapes[name] = tuple(tensors.get_slice(name).get_shape())
                    self.dtypes[name] = str(tensors.get_slice(name).get_dtype())
            self._stack = opened.pop_all()

    def __enter__(self) -> "Tensors":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def read(self, name: str) -> np.ndarray:
        """Return a tensor in its type in the file: float32, float16 or bfloat16."""
        return np.asarray(self._of[name].get_tensor(name))
