"""Metrics of a model: one kind of report for each task."""

from keras_selfattn.metrics.report import Report
from keras_selfattn.metrics.report_of_model import report_of

__all__ = ["Report", "report_of"]
