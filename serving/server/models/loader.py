"""Load versions as servables."""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_selfattn.files.version_files import CARD, read_card

from ...errors import FailedPreconditionError
from ...wire import messages_pb2 as pb
from ..config import ServerConfig
from ..runtime.batching_parameters import own_batching_parameters
from ..runtime.row_padding import row_padding
from ..runtime.search_cost import SearchCost
from ..tflite.tflite_servable import TfliteServable, has_tflite
from .saved_model_servable import SavedModelServable, runs_onednn, session_config
from .servable import Servable


class Loader:
    """Load versions, a few at a time.

    Args:
        config: of the sessions, batching and the number of simultaneous loads.
        warm_up: prepares a loaded version for its first request, such as `api.warmup.Warmup`.

    Example:
        loader = Loader(config, Warmup(config, Metrics()))
        servable = loader.load("half", 1, Path("/models/half/1"))
        loader.warm_up(servable, Path("/models/half/1"))
    """

    def __init__(
        self, config: ServerConfig, warm_up: Callable[[Servable, Path], None] = lambda *_version: None
    ):
        self._config = config
        self.warm_up = warm_up
        self._tags = config.saved_model_tags.split(",")
        self._session_config = session_config(config)
        self._has_own_batching = config.enable_batching and config.enable_per_model_batching_parameters
        self._slots = threading.Semaphore(config.num_load_threads or config.cpus)

    def load(self, model: str, version: int, path: Path) -> Servable:
        """Load a version.

        Raises:
            Exception: it does not load; TensorFlow raises many kinds.
        """
        with self._slots:
            # Read the parameters first: if they are wrong, nothing has to be freed.
            batching = own_batching_parameters(path) if self._has_own_batching else None
            card = read_card(path)
            _check_kernels(card)
            servable = self._servable(model, version, path)
            servable.batching = batching
            servable.card = card if self._config.page else None
            servable.search = SearchCost.of_card(card)
            if (path / CARD).is_file():
                servable.padding = row_padding(card, servable.signatures)
            return servable

    def _servable(self, model: str, version: int, path: Path) -> Servable:
        if self._config.prefer_tflite_model and has_tflite(path):
            return TfliteServable(model, version, path, self._config.tensorflow_intra_op_parallelism)
        # Rows of this project's exports are independent.
        has_card = (path / CARD).is_file()
        servable = SavedModelServable(model, version, path, self._tags, self._session_config, has_card)
        if has_card:
            servable.row_tensors = frozenset(_row_tensors(servable.signatures.values()))
        return servable


def _check_kernels(card: dict[str, Any] | None) -> None:
    """Raise FailedPreconditionError for an export whose operations this process' TensorFlow cannot run.

    They load nevertheless, and would fail in each request.
    """
    needed = card.get("requires") if card else None
    if isinstance(needed, dict) and needed.get("onednn") is True and not runs_onednn():
        raise FailedPreconditionError(
            "The version multiplies int8 numbers by kernels of oneDNN, which TensorFlow does not run in this "
            "process. Set TF_ENABLE_ONEDNN_OPTS=1 in the environment of the server, on an x86 processor, or "
            "export the model with another --precision."
        )


def _row_tensors(signatures: Iterable[pb.SignatureDef]) -> Iterator[str]:
    """The tensors whose rows have the same values in a batch as alone.

    Their first axis is of unknown size. All other axes of an output are of known size; otherwise the longest
    row of a batch would pad all other rows.
    """
    for signature in signatures:
        for tensors, may_vary in ((signature.inputs, True), (signature.outputs, False)):
            for info in tensors.values():
                sizes = [dim.size for dim in info.tensor_shape.dim]
                if sizes[:1] == [-1] and (may_vary or -1 not in sizes[1:]):
                    yield info.name
