"""Step 5: the task, which the commands and their help are made from."""

from pair_files import read_pairs

from keras_selfattn.tasks import Task

PAIR_TASK = Task(
    name="pairs",
    kind="PairClassifier",
    module="pair_classifier",
    endings=frozenset(),
    files="only with --task",
    learned="pairs of texts with labels",
    reading={"text": "text", "label": "label"},
    settings=frozenset({"lowercase", "wide", "members"}),
    chosen={"wide": False},
    read=read_pairs,
)
