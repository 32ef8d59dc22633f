"""Metrics of a model: one kind of report for each task."""

# ruff: noqa: E402
from keras_selfattn.extras import require

require("train", __name__, "sklearn")

from keras_selfattn.metrics.report import Report
from keras_selfattn.metrics.report_of_model import report_of

__all__ = ["Report", "report_of"]
