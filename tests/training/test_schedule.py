"""The learning rate after each epoch."""

import math

import pytest

from keras_selfattn import models, training
from keras_selfattn.training.schedule import scheduled_optimizer


def test_the_learning_rate_after_each_epoch_is_recorded_beside_its_figures():
    model = models.TextClassifier(vocabulary=["a"], labels=["x", "y"])
    optimizer, scheduled = scheduled_optimizer(model, training.TrainConfig(), 0.01, 1000)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    scheduled.set_model(model)
    scheduled.set_params({"steps": 5, "epochs": 4})
    scheduled.on_train_begin()
    found = []
    for epoch in range(4):
        optimizer.iterations.assign(5 * (epoch + 1))
        scheduled.on_epoch_end(epoch, logs := {"loss": 0.5})
        assert logs.pop("loss") == 0.5
        found.append(logs)
    # Of 20 steps 2 are the rise; the other 18 are half a wave, down to a fiftieth.
    waves = [(1 + math.cos(math.pi * done / 18)) / 2 for done in (3, 8, 13, 18)]
    wanted = [{"learning_rate": pytest.approx(0.01 * (0.02 + 0.98 * wave), rel=1e-4)} for wave in waves]
    assert found == wanted
