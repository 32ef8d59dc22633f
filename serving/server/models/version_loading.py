"""From a version's folder to a servable that is ready: loaded, and warmed up."""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ...wire import messages_pb2 as pb
from ..batching.batching_parameters import own_batching_parameters
from ..config import ServerConfig
from ..runtime.metrics import Metrics
from .servable import SavedModelServable, Servable, session_config
from ..tflite.tflite_servable import TfliteServable, has_tflite
from .warmup import warm_up

# Of the models that this project exports: they say what they are, and that rows are independent.
_CARD = Path("assets.extra") / "model_card.json"


class Loader:
    """Loads versions, a few at a time.

    Args:
        config: of the sessions, the warmup, batching and how many load at the same time.
        metrics: what is counted of the warmup.
        after_load: called when a version is loaded and warm.

    Example:
        loader = Loader(config, Metrics())
        servable = loader.load("half", 1, Path("/models/half/1"))
        loader.warm_up(servable, Path("/models/half/1"))
    """

    def __init__(self, config: ServerConfig, metrics: Metrics, after_load: Callable[[], None] = lambda: None):
        self._config = config
        self._metrics = metrics
        self._after_load = after_load
        self._tags = config.saved_model_tags.split(",")
        self._session_config = session_config(config)
        self._has_own_batching = config.enable_batching and config.enable_per_model_batching_parameters
        self._slots = threading.Semaphore(config.num_load_threads or config.cpus)

    def load(self, model: str, version: int, path: Path) -> Servable:
        """A version that can answer.

        Raises:
            Exception: it does not load; what TensorFlow raises then are many kinds.
        """
        with self._slots:
            # First, so that nothing has to be freed if they are wrong.
            batching = own_batching_parameters(path) if self._has_own_batching else None
            servable = self._servable(model, version, path)
            servable.batching = batching
            return servable

    def warm_up(self, servable: Servable, path: Path) -> None:
        """Run the requests that a version brings along for that; closing it ends them.

        Raises:
            Exception: one of them fails.
        """
        if self._config.enable_model_warmup:
            warm_up(servable, path, self._config.num_request_iterations_for_warmup or 1, self._metrics)
        self._after_load()

    def _servable(self, model: str, version: int, path: Path) -> Servable:
        if self._config.prefer_tflite_model and has_tflite(path):
            return TfliteServable(model, version, path, self._config.tensorflow_intra_op_parallelism)
        has_card = (path / _CARD).is_file()
        servable = SavedModelServable(model, version, path, self._tags, self._session_config, has_card)
        if has_card:
            servable.row_tensors = frozenset(_row_tensors(servable.signatures.values()))
        return servable


def _row_tensors(signatures: Iterable[pb.SignatureDef]) -> Iterator[str]:
    """The tensors whose rows a batch leaves as they are.

    The first axis is open; of an output all others are known: where they are not, the longest row of a batch
    makes all others as long.
    """
    for signature in signatures:
        for tensors, may_vary in ((signature.inputs, True), (signature.outputs, False)):
            for info in tensors.values():
                sizes = [dim.size for dim in info.tensor_shape.dim]
                if sizes[:1] == [-1] and (may_vary or -1 not in sizes[1:]):
                    yield info.name
