"""Steps of a fit that all processes of a group make together.

Keras averages the gradients over the processes while a distribution is set, and then all of a model's
variables must lie on all of them. So that callbacks can predict, evaluate and save as ever, that is so during
the steps and the validation of an epoch, and not between epochs.
"""

from typing import Any

import keras
import numpy as np

from keras_selfattn.training.processes.group import ProcessGroup

_FUNCTIONS = ("train_function", "test_function", "predict_function")


class SharedSteps(keras.callbacks.Callback):
    """Let all processes make the steps of each epoch together; the first callback of a fit.

    The validation rows are measured by every process, so they need not divide among them.

    Args:
        group: the processes.

    Attributes:
        agreed: a callback before those that decide by the figures of an epoch.
        beginning: the last callback of the fit, so that the others begin an epoch with a model of this
            process alone, too.
    """

    def __init__(self, group: ProcessGroup) -> None:
        super().__init__()
        self._begun = False
        # JAX compiles a function for where its variables lie.
        self._other_functions: dict[str, Any] = dict.fromkeys(_FUNCTIONS)
        self.agreed = AgreedLogs(group)
        self.beginning = keras.callbacks.LambdaCallback(on_epoch_begin=self._begin)

    def _begin(self, _epoch: int, _logs: Any) -> None:
        model: Any = self.model
        if not self._begun:
            make_equal(model)
            self._begun = True
        keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
        layout = _replicated()
        _move(model, lambda value: _on_all(value, layout))
        self._swap_functions(model)
        model.make_train_function()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        model: Any = self.model
        keras.distribution.set_distribution(None)
        _move(model, lambda value: value.addressable_data(0))
        self._swap_functions(model)

    def _swap_functions(self, model: Any) -> None:
        for name, function in self._other_functions.items():
            self._other_functions[name] = getattr(model, name)
            setattr(model, name, function)


class AgreedLogs(keras.callbacks.Callback):
    """Take the values of process 0 for each epoch, and its stop; before the callbacks that decide by them.

    Values that each process computes for itself could differ in their last digit, and a user's callback may
    stop by the clock. The processes would stop in different epochs, and wait for each other forever. So a
    stop within an epoch takes effect at its end, too.

    Args:
        group: the processes.
    """

    def __init__(self, group: ProcessGroup) -> None:
        super().__init__()
        self._group = group
        self._stops = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._stops = False

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        model: Any = self.model
        self._stops = self._stops or bool(model.stop_training)
        model.stop_training = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        model: Any = self.model
        logs = {} if logs is None else logs
        values = {name: float(value) for name, value in logs.items()}
        stops = self._stops or bool(model.stop_training)
        agreed, model.stop_training = self._group.from_first([values, stops])
        logs |= agreed


def make_equal(model: Any) -> None:
    """Give a model, and its optimizer, the variables of process 0 on all processes."""
    from jax.experimental import multihost_utils  # pyright: ignore[reportMissingImports]

    variables = _variables(model)
    values = multihost_utils.broadcast_one_to_all([np.asarray(each.value) for each in variables])
    for variable, value in zip(variables, values, strict=True):
        variable.assign(np.asarray(value))


def _variables(model: Any) -> list[Any]:
    """Return all variables of a training, each once."""
    found = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return list({id(each): each for each in found}.values())


def _move(model: Any, moved: Any) -> None:
    for variable in _variables(model):
        variable.assign(moved(variable.value))


def _replicated() -> Any:
    """Return JAX's sharding of an array that lies whole on each process."""
    from jax.sharding import NamedSharding, PartitionSpec  # pyright: ignore[reportMissingImports]

    distribution: Any = keras.distribution.distribution()
    return NamedSharding(distribution.device_mesh.backend_mesh, PartitionSpec())


def _on_all(value: Any, layout: Any) -> Any:
    """Return an array that all processes have as one that lies on all of them; nothing is sent."""
    import jax  # pyright: ignore[reportMissingImports]

    return jax.make_array_from_single_device_arrays(value.shape, layout, [value])
