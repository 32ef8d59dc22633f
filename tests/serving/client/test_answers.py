"""Answers of the client: labels with all scores, and versions with their states."""

from stock_serving import StockServing

from keras_selfattn.serving.client import (
    VersionStatus,
)


def test_status_versions_and_readiness(stock_server, connect):
    serving = StockServing(version=4)
    client = connect(stock_server(serving), "m")
    assert client.status() == [VersionStatus(4, "AVAILABLE")]
    assert client.versions() == [4]
    assert client.wait_until_ready(10, version=4) == [VersionStatus(4, "AVAILABLE")]
    client.status(version=4)
    assert [request.model_spec.version.value for request in serving.received("GetModelStatus")] == [
        0,
        0,
        4,
        4,
    ]
