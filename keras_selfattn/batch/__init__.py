"""Answers for many rows: a callable for a job of one's own; `keras-selfattn predict` uses the rest.

It imports neither TensorFlow nor Keras before the first batch.

A file (`row_files`) is read in windows of rows; a window's rows are answered in batches of similar length
(`length_batches`, by `graphs` or `served`) and written as bytes (`row_writers`), all of one `part`. `run`
goes through the parts, here or `on_ray`, and `journal` holds what is on the disk so far.

`asking.input_cells` makes inputs of cells, and `asking.answer_values` values of answers, as in
`keras-selfattn query`.
"""

from keras_selfattn.batch.predictor import Predictor, predictor

__all__ = ["Predictor", "predictor"]
