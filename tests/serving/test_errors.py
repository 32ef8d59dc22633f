"""Errors of serving: one for each status code, and the table both ways."""

import pickle

import grpc
import numpy as np
import pytest

from keras_selfattn.serving import errors
from keras_selfattn.serving.client.server_ref import ADVICE, ServerRef


@pytest.mark.slow
@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_status_code_is_its_own_exception(raw_server, connect, code):
    answer = lambda data, context: context.abort(code, "the details")  # noqa: E731
    target = raw_server(answer, without="GetModelMetadata")
    with pytest.raises(errors.ServingError) as caught:
        connect(target, "m").predict({"x": np.float32([1])}, "sig")
    error = caught.value
    assert type(error) is errors.ERROR_OF_CODE[code]
    assert (error.code, error.details, error.target, error.model) == (code, "the details", target, "m")
    assert error.signature == "sig"
    assert ADVICE[code].format(target=target, model="m") in str(error)
    assert isinstance(error.__cause__, grpc.RpcError)
    for part in (code.name, target, "'m'", "'sig'", "the details"):
        assert part in str(error)


def test_the_table_of_codes_is_total_and_goes_both_ways():
    codes = {code for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
    assert set(errors.ERROR_OF_CODE) == codes
    assert all(errors.ERROR_OF_CODE[code].code is code for code in codes)
    assert set(ADVICE) == codes
    assert all(errors.status_code(code.value[0]) is code for code in grpc.StatusCode)
    assert errors.status_code(99) is grpc.StatusCode.UNKNOWN


def test_the_tree_in_the_docstring_is_the_tree():
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)]
    assert all(f" {cls.__name__} " in f"{errors.__doc__} ".replace("\n", " ") for cls in classes)


def test_an_error_survives_pickling_with_all_it_carries():
    for cls in {*errors.ERROR_OF_CODE.values(), errors.InvalidInputError, errors.MalformedResponseError}:
        error = cls("m", details="d", target="t:1", model="n")
        error.signature, error.rows = "s", range(2, 4)
        error = pickle.loads(pickle.dumps(error))
        assert type(error) is cls
        assert (error.signature, error.rows) == ("s", range(2, 4))
        assert (str(error), error.details, error.target, error.model) == ("m", "d", "t:1", "n")


def test_where_in_its_graph_tensorflow_failed_is_in_the_details_alone():
    said = "assertion failed: [no WAV]\n\t [[{{function_node while_body_7}}{{node while/Assert}}]]"
    error = ServerRef("localhost:8500", "m").error(grpc.StatusCode.INVALID_ARGUMENT, said)
    assert "[no WAV]. `client.metadata()`" in str(error)
    assert "{{" not in str(error)
    assert error.details == said
