"""Metrics of a model: one kind of report for each task."""

from keras_selfattn.metrics.of_head import report_of
from keras_selfattn.metrics.report import Report

__all__ = ["Report", "report_of"]
