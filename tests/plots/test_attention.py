"""Plots of attention hold the numbers and words that were given, and touch nothing else of matplotlib."""

import io
import os
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import keras
import matplotlib as mpl
import numpy as np
import pytest

from keras_selfattn.drawing.colours import sequential
from keras_selfattn.plots import (
    attention_heatmaps,
    attention_over_text,
    confusion_matrix,
    encoding_curves,
    encoding_heatmap,
    pooling_heatmap,
    reliability,
    training_curves,
)

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"
ENCODING = np.random.default_rng(0).normal(size=(11, 7))


def weights(*shape):
    positive = np.random.default_rng(1).uniform(size=shape)
    return positive / positive.sum(-1, keepdims=True)


def words(count):
    return [f"word{number}" for number in range(count)]


def texts(labels):
    return [label.get_text() for label in labels]


def panels(figure):
    """The axes without those of the colour bar, which come last."""
    return figure.axes[:-1]


def image(axes):
    (only,) = axes.images
    return only


def saved(figure, form="png"):
    content = io.BytesIO()
    figure.savefig(content, format=form)
    return content.getvalue()


def run(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=120
    )


def test_every_head_of_every_layer_has_its_panel_under_its_number():
    given = weights(3, 2, 7, 5)
    figure = attention_heatmaps(given)
    shown = np.array(panels(figure)).reshape(3, 2)
    for layer, head in np.ndindex(3, 2):
        np.testing.assert_array_equal(image(shown[layer, head]).get_array(), given[layer, head])
    assert [axes.get_title() for axes in shown[0]] == ["head 0", "head 1"]
    assert [axes.get_ylabel() for axes in shown[:, 0]] == [f"layer {layer}\nquery" for layer in range(3)]
    assert [axes.get_xlabel() for axes in shown[-1]] == ["key", "key"]
    places = np.array([axes.get_subplotspec().rowspan.start for axes in shown.flat])
    np.testing.assert_array_equal(places, [0, 0, 1, 1, 2, 2])
    assert figure.axes[-1].get_ylabel() == "attention weight"


@pytest.mark.parametrize(
    ("heads", "grid"), [(1, (1, 1)), (5, (1, 5)), (6, (2, 3)), (8, (2, 4)), (16, (4, 4))]
)
def test_the_heads_of_one_layer_fill_a_grid_without_gaps(heads, grid):
    given = weights(heads, 3, 2)
    shown = panels(attention_heatmaps(given))
    assert shown[0].get_gridspec().get_geometry() == grid
    for head, axes in enumerate(shown):
        np.testing.assert_array_equal(image(axes).get_array(), given[head])
        assert axes.get_title() == f"head {head}"


def test_a_single_matrix_is_one_panel_without_a_number():
    given = weights(5, 3)
    (axes,) = panels(attention_heatmaps(given))
    np.testing.assert_array_equal(image(axes).get_array(), given)
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("", "key", "query")


def test_all_panels_share_the_colours_from_zero_to_the_largest_weight():
    given = weights(3, 2, 7, 5)
    scales = {
        (image(axes).get_clim(), image(axes).get_cmap().name) for axes in panels(attention_heatmaps(given))
    }
    assert scales == {((0, given.max()), "Blues")}


def test_masked_and_broken_weights_can_be_looked_at():
    assert image(panels(attention_heatmaps(np.zeros((3, 3))))[0]).get_clim() == (0, 1)
    broken = np.array([[np.nan, 0.25], [0.5, np.nan]])
    figure = attention_heatmaps(broken)
    assert image(figure.axes[0]).get_clim() == (0, 0.5)
    assert saved(figure).startswith(PNG)


def test_tokens_name_the_rows_and_columns_at_the_edge_of_the_grid_only():
    tokens = ["the", "cat", "the", "mat", "!"]
    shown = np.array(panels(attention_heatmaps(weights(2, 3, 5, 5), tokens))).reshape(2, 3)
    for axes in shown[-1]:
        assert texts(axes.get_xticklabels()) == tokens
        assert list(axes.get_xticks()) == [0, 1, 2, 3, 4]
    for axes in shown[:, 0]:
        assert texts(axes.get_yticklabels()) == tokens
        assert list(axes.get_yticks()) == [0, 1, 2, 3, 4]
    assert [texts(axes.get_xticklabels()) for axes in shown[0]] == [[]] * 3
    assert [texts(axes.get_yticklabels()) for axes in shown[:, 1:].flat] == [[]] * 4


def test_pooling_weights_have_a_row_for_each_hop():
    given = weights(3, 5)
    (axes,) = panels(pooling_heatmap(given, words(5)))
    np.testing.assert_array_equal(image(axes).get_array(), given)
    assert image(axes).get_clim() == (0, given.max())
    assert texts(axes.get_xticklabels()) == words(5)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("token", "hop")
    assert panels(pooling_heatmap(given))[0].get_xlabel() == "position"


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(5, 5), (60, 60), (200, 200), (4, 30, 30), (3, 4, 12, 12), (6, 8, 50, 50)])
def test_tokens_neither_touch_each_other_nor_leave_the_picture(shape):
    tokens = words(shape[-1])
    figure = attention_heatmaps(weights(*shape), tokens)
    figure.draw_without_rendering()
    columns = panels(figure)[-1].get_xticklabels()
    rows = panels(figure)[0].get_yticklabels()
    step = -(-len(tokens) // len(columns))
    assert texts(columns) == texts(rows) == tokens[::step]
    across = [label.get_window_extent() for label in columns]
    down = [label.get_window_extent() for label in rows]
    assert all(left.x1 <= right.x0 for left, right in pairwise(across))
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(down))
    assert all(box.x0 >= 0 and box.y0 >= 0 for box in across + down)
    assert all(label.get_fontsize() >= 5 for label in [*columns, *rows])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 2), (200, 200), (4, 12, 12), (3, 5, 2, 2), (12, 12, 20, 20)])
def test_panels_can_be_seen_and_their_cells_are_about_square(shape):
    figure = attention_heatmaps(weights(*shape), words(shape[-1]))
    figure.draw_without_rendering()
    width, height = panels(figure)[0].get_window_extent().size / figure.dpi
    assert min(width, height) > 0.75  # inches
    assert 0.8 < width / height < 1.25


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 2), (200, 200), (16, 1, 20, 20), (1, 16, 20, 20), (16, 16, 5, 5)])
def test_a_picture_is_neither_tiny_nor_larger_than_a_page(shape):
    inches = attention_heatmaps(weights(*shape), words(shape[-1])).get_size_inches()
    assert inches.min() > 2.2
    assert inches.max() < 15


def test_words_run_upwards_and_single_letters_stand():
    upwards, standing = (attention_heatmaps(weights(5, 5), tokens) for tokens in (words(5), "tower"))
    assert {label.get_rotation() for label in upwards.axes[0].get_xticklabels()} == {90}
    assert {label.get_rotation() for label in standing.axes[0].get_xticklabels()} == {0}
    assert texts(standing.axes[0].get_xticklabels()) == list("tower")


@pytest.mark.slow
def test_dollars_in_tokens_are_no_mathematics():
    tokens = ["$x^2$", "$\\frac{$", "5$"]
    with mpl.rc_context({"svg.fonttype": "none"}):  # letters as text, not as outlines
        drawn = saved(attention_heatmaps(weights(3, 3), tokens), "svg").decode()
    for token in tokens:
        assert drawn.count(f">{token}</text>") == 2


def test_a_script_the_font_lacks_is_drawn_with_a_font_that_has_it():
    segment = "\u2313"  # in STIXGeneral, which comes with matplotlib, not in DejaVu Sans
    with pytest.warns(UserWarning, match="missing from font"):
        saved(attention_heatmaps(weights(2, 2), ["a", segment]))
    with mpl.rc_context({"font.family": ["DejaVu Sans", "STIXGeneral"]}):
        figure = attention_heatmaps(weights(2, 2), ["a", segment])
    assert saved(figure).startswith(PNG)


@pytest.mark.parametrize(
    "figure",
    [
        partial(encoding_heatmap, np.ones((1, 1))),
        partial(pooling_heatmap, np.ones((1, 1))),
        partial(attention_heatmaps, np.ones((1, 1, 1))),
    ],
)
def test_positions_are_whole_numbers_even_if_there_is_one(figure):
    made = figure()
    made.draw_without_rendering()
    axes = made.axes[0]
    within = [
        [tick for tick in ticks if -0.5 < tick < 0.5] for ticks in (axes.get_xticks(), axes.get_yticks())
    ]
    assert within == [[0], [0]]


@pytest.mark.parametrize(
    "figure",
    [
        partial(encoding_curves, ENCODING, [1]),
        partial(encoding_heatmap, ENCODING),
        partial(attention_heatmaps, weights(2, 5, 5)),
        partial(pooling_heatmap, weights(2, 5)),
    ],
)
def test_a_title_stands_above_and_the_figure_can_be_saved(figure):
    made = figure(title="What it shows")
    assert made.get_suptitle() == "What it shows"
    assert saved(made).startswith(PNG)
    assert figure().get_suptitle() == ""


def test_a_long_title_is_broken_into_lines_that_fit():
    figure = pooling_heatmap(weights(2, 5), title="more words than a small picture has room for in one line")
    figure.draw_without_rendering()
    box = figure.texts[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_tensors_of_every_float_dtype_are_drawn(dtype):
    tensor = keras.ops.convert_to_tensor([[0.25, 0.75], [1.0, 0.0]], dtype=dtype)
    (axes,) = panels(attention_heatmaps(tensor))
    np.testing.assert_array_equal(image(axes).get_array(), [[0.25, 0.75], [1.0, 0.0]])


def test_drawing_loads_neither_pyplot_nor_keras():
    program = (
        "import io, sys, keras_selfattn.plots as plots\n"
        "assert not [name for name in sys.modules if name.startswith('matplotlib')]\n"
        "plots.encoding_curves([[1, 2]], [0])\n"
        "plots.encoding_heatmap([[1, 2]])\n"
        "plots.pooling_heatmap([[1, 2]]).savefig(io.BytesIO())\n"
        "plots.attention_heatmaps([[1, 2]]).savefig(io.BytesIO())\n"
        "print([name for name in ('matplotlib.pyplot', 'keras', 'tensorflow') if name in sys.modules])"
    )
    assert run(program).stdout.strip() == "[]"


def test_pyplot_does_not_learn_of_the_figures():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before, settings = pyplot.get_fignums(), dict(mpl.rcParams)
    encoding_curves(ENCODING, [0])
    encoding_heatmap(ENCODING)
    attention_heatmaps(weights(2, 5, 5))
    pooling_heatmap(weights(2, 5))
    assert pyplot.get_fignums() == before
    assert dict(mpl.rcParams) == settings


def test_without_matplotlib_the_error_says_how_to_install_it():
    program = (
        "import sys\nsys.modules['matplotlib'] = None\n"
        "from keras_selfattn import plots\n"
        "try:\n    plots.encoding_heatmap([[1, 2]])\n"
        "except ImportError as error:\n    print(error)"
    )
    said = run(program).stdout.strip()
    assert said.startswith("keras_selfattn.plots needs matplotlib, which is not installed: ")
    assert said.endswith("pip install 'keras-selfattn[plots]'")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(encoding_curves, ENCODING, [3, 7]), r"`columns` must lie in \[0, 7\). Received 7."),
        (partial(encoding_curves, ENCODING, [-1]), r"`columns` must lie in \[0, 7\). Received -1."),
        (partial(encoding_curves, ENCODING, 3), r"list of column numbers, such as \[6, 7\]. Received 3."),
        (partial(encoding_curves, ENCODING, []), r"`columns` must be a list .* Received \[\]."),
        (partial(encoding_curves, ENCODING, [1.5]), r"`columns` must be a list .* Received \[1.5\]."),
        (
            partial(encoding_curves, ENCODING[None], [3]),
            r"`encoding` must have shape \[length, features\]. Received shape \(1, 11, 7\); give one sample",
        ),
        (partial(encoding_heatmap, ENCODING[0]), r"`encoding` must have shape .* Received shape \(7,\)"),
        (
            partial(encoding_heatmap, [["a"]]),
            r"`encoding` must be an array of numbers. Received \[\['a'\]\].",
        ),
        (
            partial(encoding_heatmap, np.ones((0, 3))),
            r"`encoding` must hold at least .* Received shape \(0, 3\)",
        ),
        (
            partial(attention_heatmaps, weights(1, 1, 2, 3, 3)),
            r"\[query, key\] or \[heads, query, key\] or \[layers, heads, query, key\]. "
            r"Received shape \(1, 1, 2, 3, 3\)",
        ),
        (partial(attention_heatmaps, weights(17, 2, 2)), "at most 16 heads, .* Received 17; plot a part"),
        (partial(attention_heatmaps, weights(18, 1, 2, 2)), "at most 16 layers, .* Received 18; plot a part"),
        (
            partial(attention_heatmaps, [[0.5, -0.25]]),
            "`weights` must not be negative. Received -0.25; give what comes after the softmax",
        ),
        (
            partial(attention_heatmaps, weights(2, 5, 5), words(4)),
            "`tokens` must have one entry for each of the 5 positions of the query axis. Received 4; if",
        ),
        (partial(attention_heatmaps, weights(4, 5), words(4)), "5 positions of the key axis. Received 4"),
        (partial(attention_heatmaps, weights(2, 2), [b"a", "b"]), "`tokens` must be strings. Received b'a'"),
        (partial(pooling_heatmap, weights(2, 5), words(2)), "5 positions of the length axis. Received 2"),
        (
            partial(pooling_heatmap, weights(2, 5, 5)),
            r"`weights` must have shape \[hops, length\]. .*\(2, 5, 5\)",
        ),
    ],
)
def test_bad_arguments_are_named_with_their_value(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.process
def test_the_example_writes_its_three_pictures_and_says_where(tmp_path):
    output = tmp_path / "new" / "folder"
    script = ROOT / "examples" / "position_encodings.py"
    for _again in range(2):  # the second run replaces what the first wrote
        done = subprocess.run(
            [sys.executable, str(script), "--output", str(output)],
            capture_output=True,
            check=True,
            text=True,
            timeout=240,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        )
    names = ("encoding-curves.png", "encoding-heatmap.png", "attention-heatmaps.png")
    assert done.stdout.splitlines() == [str(output / name) for name in names]
    assert {path.name for path in output.iterdir()} == set(names)
    for path in output.iterdir():
        assert path.read_bytes().startswith(PNG)
        assert 5_000 < path.stat().st_size < 80_000


def test_a_text_has_its_tokens_in_lines_on_the_colours_of_their_weights():
    tokens = words(40)
    figure = attention_over_text(tokens, np.linspace(0, 1, 40))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert texts(axes.texts) == tokens
    ends = [patch.get_x() + patch.get_width() for patch in axes.patches]
    assert max(ends) <= axes.get_xlim()[1]
    assert len({patch.get_y() for patch in axes.patches}) > 1
    assert axes.patches[0].get_facecolor() != axes.patches[-1].get_facecolor()
    assert axes.patches[-1].get_facecolor() == mpl.colors.to_rgba(sequential(0.0))
    assert saved(attention_over_text(["$x$", ""], [0.0, 0.0])).startswith(PNG)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(training_curves, {}), "`history` must hold values by name"),
        (partial(training_curves, {"loss": [1.0], "val_loss": [1.0, 2.0]}), "Received loss 1, val_loss 2"),
        (partial(confusion_matrix, np.ones((2, 3)), ["a", "b"]), r"must be square. Received shape \(2, 3\)"),
        (partial(confusion_matrix, [[1, -1], [0, 1]], ["a", "b"]), "must hold counts. Received -1"),
        (partial(confusion_matrix, np.eye(2), ["a"]), "one name for each of the 2 classes. Received 1"),
        (partial(reliability, [True], [0.5, 0.5]), "one value for each answer. Received 1 and 2"),
        (partial(reliability, [True], [1.5]), r"`confidence` must be in \[0, 1\]. Received 1.5"),
        (partial(attention_over_text, ["a"], [0.5, 0.5]), "2 positions of the text axis. Received 1"),
        (partial(attention_over_text, ["a"], [-0.5]), "must not be negative"),
    ],
)
def test_bad_arguments_of_the_pictures_of_runs_are_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()
