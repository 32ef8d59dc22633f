"""Figures as data, and their drawing as HTML and SVG; of NumPy and the standard library alone."""
