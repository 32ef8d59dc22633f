"""The exit statuses tell a program what to do next."""

from keras_selfattn.asking import exit_status
from keras_selfattn.serving import errors


def test_exit_statuses_tell_what_to_do():
    statuses = {
        name: exit_status.exit_status(getattr(errors, name)(""))
        for name in dir(errors)
        if name.endswith("Error")
    }
    assert statuses == dict.fromkeys(statuses, 1) | {
        "InvalidInputError": 2,
        "NotFoundError": 3,
        "FailedPreconditionError": 3,
        "UnavailableError": 4,
        "DeadlineExceededError": 4,
        "ResourceExhaustedError": 4,
        "AbortedError": 4,
        "UnauthenticatedError": 5,
        "PermissionDeniedError": 5,
    }
    assert exit_status.exit_status(ValueError()) == 1
