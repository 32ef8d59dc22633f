"""Fixtures of an object store for tests; skipped where moto and s3fs are not installed."""

import uuid

import pytest


@pytest.fixture(scope="session")
def store_server():
    """A FaultyStore that runs, and its URL."""
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")
    from faulty_store import faulty_store

    with faulty_store() as running:
        yield running


@pytest.fixture
def store(store_server, monkeypatch):
    """The FaultyStore, whose address and keys are where S3's own tools look for them."""
    running, url = store_server
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "not-to-be-seen",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
    }.items():
        monkeypatch.setenv(name, value)
    running.requests.clear()
    yield running
    running.fault = lambda request: None


@pytest.fixture
def bucket(store):
    """The URI of a new, empty bucket."""
    import fsspec

    name = f"bucket-{uuid.uuid4()}"
    fsspec.filesystem("s3").mkdir(name)
    return f"s3://{name}"


@pytest.fixture
def put(bucket):
    """Writes a folder, or some of its files, into the bucket, in the given order."""
    import fsspec

    system = fsspec.filesystem("s3")

    def put(folder, uri, names=None):
        files = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
        for name in files if names is None else names:
            system.pipe_file(f"{uri.removeprefix('s3://')}/{name}", (folder / name).read_bytes())

    return put
