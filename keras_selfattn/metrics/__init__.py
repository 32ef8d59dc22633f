"""Metrics of a model: one kind of report for each task.

The names load on first use: `plots` draws the reliability of probabilities, which is here, with NumPy alone.
"""

from typing import TYPE_CHECKING, Any

from keras_selfattn.extras import importing, require

if TYPE_CHECKING:
    from keras_selfattn.metrics.report import Report
    from keras_selfattn.metrics.report_of_model import report_of

__all__ = ["Report", "report_of"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("train", __name__, "sklearn")
    with importing("train", __name__):
        from keras_selfattn.metrics import report, report_of_model
    return getattr(report if name == "Report" else report_of_model, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
