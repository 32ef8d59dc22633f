"""A type checker accepts right uses of the client and refuses wrong ones."""

import importlib.resources
import inspect
import typing

import pytest

from keras_selfattn.serving import client

PUBLIC = [getattr(client, name) for name in client.__all__]


def test_the_wheel_says_that_it_is_typed():
    assert importlib.resources.files("keras_selfattn").joinpath("py.typed").is_file()


@pytest.mark.parametrize("kind", [client.Client, client.AsyncClient])
def test_every_argument_and_result_has_a_type(kind):
    methods = [getattr(kind, name) for name in dir(kind) if not name.startswith("_")]
    assert len(methods) > 12
    for method in [*methods, kind.__init__]:
        hints = typing.get_type_hints(method)
        names = [name for name in inspect.signature(method).parameters if name != "self"]
        assert {*names, "return"} <= hints.keys() or method.__name__ == "__init__", method
        assert not [name for name in names if name not in hints], method


def test_every_public_name_has_words_and_an_example():
    assert [item.__name__ for item in PUBLIC if "Example:" not in (item.__doc__ or "")] == []
    for kind in (client.Client, client.AsyncClient):
        for name in (name for name in vars(kind) if not name.startswith("_") and name != "close"):
            words = getattr(kind, name).__doc__
            assert "Example:" in words, name
            assert "Raises:" in words, name
