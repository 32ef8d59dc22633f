"""Metrics of a model: one kind of report for each task."""

from keras_selfattn.extras import importing, require

require("train", __name__, "sklearn")

with importing("train", __name__):
    from keras_selfattn.metrics.report import Report
    from keras_selfattn.metrics.report_of_model import report_of

__all__ = ["Report", "report_of"]
