"""Rows and targets as users have them: containers, names of labels, lists in cells, marks of spans."""
