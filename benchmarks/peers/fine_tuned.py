"""A pretrained encoder fine-tuned on a set, and its figures on the test rows."""

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.accuracy.peer import labelled, timed
from benchmarks.accuracy.sets import Split
from benchmarks.peak import peak_growth

# The recipe of BERT's paper (section A.3), within its ranges, for the peer.
_RATE, _EPOCHS, _BATCH, _MOST_TOKENS = 5e-5, 3, 32, 128
# On few rows it needs more steps: Mosbach et al. 2021, "On the Stability of Fine-tuning BERT", section 6.
_FEW_ROWS, _FEW_EPOCHS, _FEW_BATCH = 1_000, 20, 16
# SetFit has as many pairs as the square of the rows. With this many steps it takes minutes, not hours.
_MOST_STEPS = 500


def ours(folder: str, split: Split, seed: int, quick: bool) -> dict[str, float]:
    """Train like `keras-selfattn train --from FOLDER`; its export in int8 answers the test rows, too."""
    import tempfile

    from keras_selfattn.cli.shared.backend import import_tensorflow

    import_tensorflow(batches=True)
    from keras_selfattn import models, training

    import_module("keras_selfattn.models.text.ngram_fit")  # imports are no training
    rows, model = labelled(split), models.TextClassifier(start=folder)
    settings = model.advised_training(len(rows)) | ({"epochs": 1} if quick else {})
    config = training.TrainConfig(**{**settings, "seed": seed})

    def train() -> training.Run:
        with tempfile.TemporaryDirectory() as output:
            return training.train(rows, f"{output}/run", model=model, config=config, verbose=0)

    run, figures = _measured(train)
    labels: Any = run.model.head.labels  # pyright: ignore[reportAttributeAccessIssue]
    figures |= _tested(run.model.predict(split.test.inputs, verbose=0), labels, split)
    from benchmarks.accuracy.served import measure_in_int8  # after the training, whose imports it would hide

    return figures | measure_in_int8(run.model, split)


def transformers_on_torch(folder: str, split: Split, seed: int, quick: bool) -> dict[str, float]:
    """Train the same weights with a linear layer on the mean of the tokens, on PyTorch."""
    import torch  # pyright: ignore[reportMissingImports]
    from transformers import AutoModel, AutoTokenizer  # pyright: ignore[reportMissingImports]

    torch.manual_seed(seed)
    rows, tokenizer = labelled(split), AutoTokenizer.from_pretrained(folder)
    labels = sorted(set(rows.targets))
    targets = np.array([labels.index(target) for target in rows.targets])
    few = len(rows) <= _FEW_ROWS
    epochs, size = (_FEW_EPOCHS, _FEW_BATCH) if few else (_EPOCHS, _BATCH)
    passes = 1 if quick else epochs

    def logits(modules: Any, texts: list[str]) -> Any:
        encoder, head, dropout = modules
        # In training as many tokens as ours reads; then the tokenizer's own limit, as ours.
        limit = _MOST_TOKENS if modules.training else None
        batch = tokenizer(texts, truncation=True, max_length=limit, padding=True, return_tensors="pt")
        hidden, real = encoder(**batch).last_hidden_state, batch["attention_mask"][..., None]
        return head(dropout((hidden * real).sum(1) / real.sum(1)))  # [B, C]

    def train() -> Any:
        encoder = AutoModel.from_pretrained(folder)  # here, since ours reads the weights in its training, too
        head, dropout = torch.nn.Linear(encoder.config.hidden_size, len(labels)), torch.nn.Dropout(0.1)
        modules = torch.nn.ModuleList([encoder, head, dropout]).train()
        _steps(modules, partial(logits, modules), rows.inputs, targets, passes, size, seed)
        return modules

    modules, figures = _measured(train)
    modules.eval()
    found = []
    with torch.inference_mode():
        for start in range(0, len(split.test), _BATCH):
            texts = split.test.inputs[start : start + _BATCH]
            found.append(torch.softmax(logits(modules, list(texts)), dim=1).numpy())
    return figures | _tested(np.concatenate(found), labels, split)


def setfit(folder: str, split: Split, seed: int, quick: bool) -> dict[str, float]:
    """Train as SetFit does by default, with at most 500 steps."""
    import tempfile

    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from setfit import SetFitModel, Trainer, TrainingArguments  # pyright: ignore[reportMissingImports]

    rows = labelled(split)
    labels = sorted(set(rows.targets))
    model = SetFitModel.from_pretrained(folder, labels=labels)
    table = Dataset.from_dict({"text": list(rows.inputs), "label": list(rows.targets)})
    with tempfile.TemporaryDirectory() as output:
        settings = TrainingArguments(
            output, seed=seed, max_steps=1 if quick else _MOST_STEPS, save_strategy="no", report_to="none"
        )
        trainer = Trainer(model, args=settings, train_dataset=table)
        _, figures = _measured(trainer.train)
    found = model.predict_proba(list(split.test.inputs), as_numpy=True)
    return figures | _tested(np.asarray(found), labels, split)


def logistic_regression(folder: str, split: Split, seed: int, quick: bool) -> dict[str, float]:
    """Fit scikit-learn's logistic regression to the vectors of texts, which no training changes."""
    from keras_selfattn.cli.shared.backend import import_tensorflow

    import_tensorflow(batches=True)
    from sklearn.linear_model import LogisticRegression

    from keras_selfattn import models

    rows, encoder = labelled(split), models.TextEncoder(start=folder)

    def train() -> LogisticRegression:
        vectors = encoder.predict(rows.inputs, verbose=0)
        return LogisticRegression(max_iter=1000).fit(vectors, rows.targets)

    fitted, figures = _measured(train)
    probabilities = fitted.predict_proba(encoder.predict(split.test.inputs, verbose=0))
    return figures | _tested(probabilities, list(fitted.classes_), split)


def _steps(
    modules: Any, logits: Any, texts: Any, targets: np.ndarray, epochs: int, size: int, seed: int
) -> None:
    """Train modules of PyTorch: AdamW, a linear warmup and decay, gradients clipped to norm 1."""
    import torch  # pyright: ignore[reportMissingImports]
    from transformers import get_linear_schedule_with_warmup  # pyright: ignore[reportMissingImports]

    weights = list(modules.parameters())
    optimizer = torch.optim.AdamW(weights, lr=_RATE, weight_decay=0.01)
    steps = epochs * -(-len(texts) // size)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        order = random.permutation(len(texts))
        for chosen in np.split(order, range(size, len(order), size)):
            found = logits([texts[place] for place in chosen])
            loss = torch.nn.functional.cross_entropy(found, torch.tensor(targets[chosen]))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()


def _measured(train: Any) -> tuple[Any, dict[str, float]]:
    """Return the result of a training, from the folder on, with its seconds and megabytes."""
    found: list[Any] = []
    grown = peak_growth(lambda: found.append(timed(train)))
    result, (wall, cpu) = found[0]
    return result, {"seconds": wall, "cpu s": cpu, "memory MB": grown / 1e6}


def _tested(probabilities: np.ndarray, labels: list[str], split: Split) -> dict[str, float]:
    """Return accuracy and mean log loss on the test rows."""
    targets = np.array([labels.index(target) for target in split.test.targets])
    of_targets = probabilities[np.arange(len(targets)), targets].astype(np.float64)
    return {
        "accuracy": float(np.mean(probabilities.argmax(axis=1) == targets)),
        "log loss": float(-np.mean(np.log(np.maximum(of_targets, 1e-7)))),
    }
