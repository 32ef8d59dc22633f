"""The figures of reports in words, for the terminal and the page."""

import math

NAMES = {
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "calibration_error": "calibration error",
    "span_f1": "span F1",
    "span_precision": "span precision",
    "span_recall": "span recall",
    "span_macro_f1": "span macro F1",
    "span_overlap_f1": "overlapping span F1",
    "span_overlap_precision": "overlapping span precision",
    "span_overlap_recall": "overlapping span recall",
    "accuracy_of_the_commonest": "accuracy of always the commonest",
    "bleu": "BLEU",
    "chrf": "chrF",
    "unfinished": "cut at the bound",
}
"""Names of figures that are not their own words."""
_WITHIN = {"r_squared": "R²", "pearson": "Pearson", "spearman": "Spearman"}
_SHARES = frozenset(
    {"accuracy", "calibration_error", "exact_match", "word_error_rate", "character_error_rate", "unfinished"}
)
_OF_CORPUS = ("bleu", "chrf")  # 0 to 100


def name_in_words(name: str) -> str:
    """Return the name of a figure as people read it.

    Example:

        >>> name_in_words("macro_f1"), name_in_words("mean_absolute_error")
        ('macro F1', 'mean absolute error')
        >>> name_in_words("r_squared_of_ridge")
        'R² of ridge'
    """
    if name in NAMES:
        return NAMES[name]
    for part, words in _WITHIN.items():
        name = name.replace(part, words)
    return name.replace("_", " ")


def value_in_words(name: str, value: float) -> str:
    """Return the value of a figure as people read it.

    Example:

        >>> value_in_words("accuracy", 0.9231), value_in_words("macro_f1", float("nan"))
        ('92.3%', 'none')
        >>> value_in_words("documents", 1200)
        '1,200'
    """
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "none" if math.isnan(value) else "infinite"
    if name.partition("_of_")[0] in _SHARES:
        return f"{value:.1%}"
    if "_error" in name:
        return f"{value:.4g}"  # in the units of the targets
    return f"{value:.1f}" if name in _OF_CORPUS else f"{value:.3f}"
