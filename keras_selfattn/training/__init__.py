"""Training of the models on labelled rows, or on texts without labels; the result is a run folder."""

from keras_selfattn.extras import importing, require

require("train", __name__)

with importing("train", __name__):
    from keras_selfattn.metrics.evaluation import evaluate
    from keras_selfattn.metrics.masked_tokens import evaluate_pretrained
    from keras_selfattn.models.optimizers import FineTuningAdamW, FusedAdamW
    from keras_selfattn.training.config import TrainConfig
    from keras_selfattn.training.pretraining import pretrain
    from keras_selfattn.training.processes.clusters import SideBySide
    from keras_selfattn.training.processes.group import ProcessGroup
    from keras_selfattn.training.training import Run, train

__all__ = [
    "FineTuningAdamW",
    "FusedAdamW",
    "ProcessGroup",
    "Run",
    "SideBySide",
    "TrainConfig",
    "evaluate",
    "evaluate_pretrained",
    "pretrain",
    "train",
]
