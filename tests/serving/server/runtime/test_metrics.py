"""Counts by version: kept for those that answer and the newest others, forgotten for the rest."""

import re

import pytest

from keras_selfattn.serving.errors import NotFoundError
from keras_selfattn.serving.server.runtime.metrics import Metrics


def asked(metrics, model, version, status_error=None):
    """A request that a version has answered; with an error, one that found none."""
    try:
        with metrics.request(model, "Predict", "GRPC") as counted:
            if status_error is not None:
                raise status_error
            counted.version, counted.signature = str(version), "serving_default"
            metrics.ran(counted, 0.1)
    except NotFoundError:
        pass


def versions(text, metric, model):
    found = re.findall(rf'^:tensorflow:serving:{metric}{{model_name="{model}".*version="(\d*)"', text, re.M)
    return [int(each) if each else None for each in found]


@pytest.mark.parametrize("metric", ["request_count", "request_latency_count", "runtime_latency_count"])
def test_old_versions_are_forgotten_unless_they_answer(metric):
    metrics = Metrics(by_version=True)
    for version in range(1, 41):
        asked(metrics, "half", version)
        asked(metrics, "other", version)
    asked(metrics, "half", None, NotFoundError("no version"))
    text = metrics.text({"half": [3, 40], "other": []})
    none = [None] if metric != "runtime_latency_count" else []
    assert versions(text, metric, "half") == [3, *range(31, 41), *none]
    assert versions(text, metric, "other") == list(range(31, 41))


def test_without_versions_nothing_is_forgotten():
    metrics = Metrics()
    for version in range(40):
        asked(metrics, f"model{version}", version)
    assert len(re.findall(r"^:tensorflow:serving:request_count{", metrics.text({}), re.M)) == 40
    assert "version=" not in metrics.text({})
