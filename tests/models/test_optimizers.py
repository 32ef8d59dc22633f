"""AdamW of trainings: the steps of Keras' own, in a graph of a fraction of its operations."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_selfattn.errors import ConfigError
from keras_selfattn.models.optimizers import FineTuningAdamW, FusedAdamW
from keras_selfattn.models.pretrained.embedding import PretrainedEmbedding

WEIGHTS = {"kernel": (3, 5), "bias": (5,), "gamma": ()}
COMPILED = {"graph": tf.function, "XLA": tf.function(jit_compile=True), "eager": lambda step: step}


def schedule():
    return keras.optimizers.schedules.CosineDecay(0.01, 4, alpha=0.1, warmup_target=0.1, warmup_steps=2)


def moved(optimizer, excluded=(), way="graph", dtype="float32"):
    """Return the weights after six steps."""
    random = np.random.default_rng(0)
    with keras.name_scope("block"):
        variables = [
            keras.Variable(random.normal(size=WEIGHTS[name]), dtype=dtype, name=name) for name in WEIGHTS
        ]
    optimizer.exclude_from_weight_decay(var_names=list(excluded))
    optimizer.build(variables)
    step = COMPILED[way](lambda given: optimizer.apply(given, variables))
    for _ in range(6):
        step([tf.constant(random.normal(size=shape), dtype) for shape in WEIGHTS.values()])
    return [keras.ops.convert_to_numpy(keras.ops.cast(each, "float64")) for each in variables]


def assert_moved_alike(settings, tolerance=1e-5, **how):
    kinds = FusedAdamW, keras.optimizers.AdamW
    found, wanted = (moved(kind(schedule(), **settings), **how) for kind in kinds)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.3, "global_clipnorm": 1.5},
        {"weight_decay": 0.0, "clipnorm": 0.5, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3},
        {"weight_decay": 0.3, "clipvalue": 0.2, "use_ema": True, "ema_momentum": 0.5},
        {"weight_decay": 0.3, "gradient_accumulation_steps": 2, "loss_scale_factor": 2.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("way", COMPILED)
def test_weights_move_as_with_keras_adamw(settings, way):
    assert_moved_alike(settings, way=way, excluded=["bias"])


@pytest.mark.parametrize("excluded", [["block"], ["kernel:0"], ["^kernel$"], ["gamma", "bias"]])
def test_names_exclude_the_weights_that_they_exclude_from_keras_adamw(excluded):
    assert_moved_alike({"weight_decay": 0.5}, excluded=excluded)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-5), ("float16", 1e-3), ("bfloat16", 1e-2)])
def test_weights_of_other_types_move_as_with_keras_adamw(dtype, tolerance):
    assert_moved_alike({"weight_decay": 0.3, "beta_2": 0.99}, tolerance, dtype=dtype)


def test_plain_variables_of_tensorflow_are_moved():
    weight = tf.Variable([1.0, 2.0])
    FusedAdamW(0.1, weight_decay=0.5).apply_gradients([(tf.constant([3.0, -3.0]), weight)])
    # The first step of Adam has the length of the rate.
    np.testing.assert_allclose(weight.numpy(), [0.95 - 0.1, 1.9 + 0.1], rtol=1e-5)


def test_rows_of_a_table_that_occur_twice_count_once_with_the_sum_of_their_gradients():
    table = keras.Variable(np.ones((4, 2)), dtype="float32", name="table")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table.value, [1, 1, 2]) * [[1.0], [2.0], [-3.0]])
    gradient = tape.gradient(loss, table.value)
    assert isinstance(gradient, tf.IndexedSlices)
    optimizer = FusedAdamW(0.1, weight_decay=0.5)
    optimizer.apply_gradients([(gradient, table)])
    # Rows without a gradient decay, too.
    kept = 1 - 0.1 * 0.5
    np.testing.assert_allclose(
        np.array(table), [[kept] * 2, [kept - 0.1] * 2, [kept + 0.1] * 2, [kept] * 2], rtol=1e-5
    )


@pytest.mark.parametrize("setting", ["clipnorm", "global_clipnorm"])
@pytest.mark.parametrize("kind", [FusedAdamW, FineTuningAdamW])
def test_the_norm_of_a_table_that_is_clipped_is_that_of_the_sums(kind, setting):
    table = keras.Variable(np.ones((4, 2)), dtype="float32", name="table")
    gradient = tf.IndexedSlices(tf.fill([100, 2], 0.1), tf.fill([100], 3), tf.constant([4, 2]))
    optimizer = kind(0.1, beta_1=0.9, **{setting: 1.0})
    optimizer.apply_gradients([(gradient, table)])
    first = np.array(optimizer.variables[2])  # after iterations and rate
    np.testing.assert_allclose(np.linalg.norm(first), 0.1, rtol=1e-5)


def operations(optimizer, count):
    variables = [
        keras.Variable(np.ones(3), dtype="float32", name=f"weight_{number}") for number in range(count)
    ]
    optimizer.build(variables)

    def step(given):
        optimizer.apply_gradients([(given, each) for each in variables])

    graph = tf.function(step).get_concrete_function(tf.TensorSpec((3,))).graph
    functions = graph.as_graph_def().library.function
    return len(graph.get_operations()) + sum(len(each.node_def) for each in functions)


def test_a_weight_adds_few_operations_and_none_of_the_schedule():
    ours, theirs = (
        operations(kind(schedule()), 12) - operations(kind(schedule()), 2)
        for kind in (FusedAdamW, keras.optimizers.AdamW)
    )
    assert ours <= 10 * 30
    assert 2 * ours < theirs


def test_it_is_saved_as_its_own_kind_and_refuses_amsgrad():
    optimizer = FusedAdamW(schedule(), weight_decay=0.25, global_clipnorm=1.0)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is FusedAdamW
    assert again.get_config() == optimizer.get_config()
    with pytest.raises(ConfigError, match="`amsgrad` is not for FusedAdamW"):
        FusedAdamW(amsgrad=True)


TEXTS = ["a good film .", "the good film", "good films", "a bad film .", "the bad film", "badly bad"] * 6


LABELS = ["+", "+", "+", "-", "-", "-"] * 6


def stepped(optimizer, weights, gradients):
    """Applies a list of gradients for each step; returns the weights."""
    variables = [keras.Variable(value, name=name) for name, value in weights.items()]
    for step in gradients:
        optimizer.apply_gradients(zip(map(tf.convert_to_tensor, step), variables, strict=True))
    return [np.array(each) for each in variables]


def test_dense_weights_move_as_with_keras_adamw():
    random = np.random.default_rng(0)
    weights = {"kernel": random.normal(size=(3, 5)), "bias": random.normal(size=5)}
    gradients = [[random.normal(size=value.shape) for value in weights.values()] for _ in range(4)]
    settings = {"learning_rate": 0.1, "weight_decay": 0.3, "global_clipnorm": 1.5}
    theirs = keras.optimizers.AdamW(**settings)
    theirs.exclude_from_weight_decay(var_names=["bias"])
    for ours, wanted in zip(
        stepped(FineTuningAdamW(**settings), weights, gradients),
        stepped(theirs, weights, gradients),
        strict=True,
    ):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)


def test_a_factor_scales_rate_and_decay_and_the_longest_path_counts():
    weights = {"kernel": np.full((2, 2), 4.0)}
    gradients = [[np.ones((2, 2))]]
    found = stepped(
        FineTuningAdamW(0.1, rates={"kern": 9.0, "kernel": 0.5}, weight_decay=0.2), weights, gradients
    )
    # The first step of Adam has the length of the rate.
    np.testing.assert_allclose(found[0], 4 - 4 * 0.05 * 0.2 - 0.05, rtol=1e-5)
    optimizer = FineTuningAdamW(rates={"a": 0.5, "a/b": 0.25})
    assert [optimizer.rate_of(path) for path in ("a/b/kernel", "a/bc", "a", "b/a")] == [0.25, 0.5, 0.5, 1.0]


def test_of_a_table_only_the_rows_in_use_move_and_repeats_add_up():
    random = np.random.default_rng(1)
    old, factors = random.normal(size=(7, 3)), random.normal(size=(4, 3))
    table = keras.Variable(old.astype("float32"), name="tokens")
    optimizer = FineTuningAdamW(0.1, weight_decay=0.3, global_clipnorm=0.7, beta_1=0.8, beta_2=0.9)
    optimizer.build([table])
    first, second, wanted = np.zeros((7, 3)), np.zeros((7, 3)), old.copy()
    for step, ids in enumerate([[1, 4, 4, 2], [4, 0, 1, 4]], start=1):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table.value, ids) * tf.cast(factors, tf.float32))
        (gradient,) = tape.gradient(loss, [table.value])
        assert isinstance(gradient, tf.IndexedSlices)
        optimizer.apply_gradients([(gradient, table)])
        dense = np.zeros((7, 3))
        np.add.at(dense, ids, factors)
        dense *= min(1, 0.7 / np.linalg.norm(dense))
        rows = sorted(set(ids))
        first[rows] = 0.8 * first[rows] + 0.2 * dense[rows]
        second[rows] = 0.9 * second[rows] + 0.1 * dense[rows] ** 2
        rate = 0.1 * np.sqrt(1 - 0.9**step) / (1 - 0.8**step)
        moved = rate * first[rows] / (np.sqrt(second[rows]) + 1e-7)
        wanted[rows] = wanted[rows] * (1 - 0.1 * 0.3) - moved
    np.testing.assert_allclose(np.array(table), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(np.array(table)[[3, 5, 6]], old[[3, 5, 6]].astype(np.float32))


def tables_after(steps, name, way="graph", saved_after=None, then=None):
    """Trains a table of 50 rows for steps "rows" (some of them) or "all"; returns it and its optimizer.

    After so many steps the optimizer is saved, and loaded by one of a table called `then`, or as before.
    """
    random = np.random.default_rng(0)

    def table_and_optimizer(value, name):
        with keras.name_scope("embedding"):
            table = keras.Variable(value, dtype="float32", name=name)
        optimizer = FineTuningAdamW(0.1, weight_decay=0.1, global_clipnorm=1.0, rates={"embedding": 0.5})
        optimizer.build([table])
        return table, optimizer

    def step(kind, ids, values):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table.value, ids) ** 2 * values)
        gradient = tape.gradient(loss, table.value)
        dense = tf.tensor_scatter_nd_add(tf.zeros([50, 4]), ids[:, None], values)
        optimizer.apply_gradients([(gradient if kind == "rows" else dense, table)])

    table, optimizer = table_and_optimizer(random.normal(size=(50, 4)), name)
    compiled = COMPILED[way](step)
    for place, kind in enumerate(steps):
        if place == saved_after:
            store = {}
            optimizer.save_own_variables(store)
            table, optimizer = table_and_optimizer(table.numpy(), then or name)
            optimizer.load_own_variables(store)
            compiled = COMPILED[way](step)
        ids = random.integers(0, 50, random.integers(1, 12))
        values = random.normal(size=(len(ids), 4)).astype("float32")
        compiled(kind, tf.constant(ids), tf.constant(values))
    return table.numpy(), optimizer


@pytest.mark.parametrize("way", ["graph", "eager"])
@pytest.mark.parametrize("steps", ["r" * 6, "rrrarr", "arrr", "rrarar", "aaaa"])
def test_a_table_of_tokens_moves_as_if_all_of_its_rows_had_moments(steps, way):
    steps = [{"r": "rows", "a": "all"}[each] for each in steps]
    found, wanted = (tables_after(steps, name, way)[0] for name in ("tokens", "vectors"))
    np.testing.assert_array_equal(found, wanted)


def test_only_rows_in_use_have_moments_which_are_saved_and_loaded():
    wanted, whole = tables_after(["rows"] * 5, "tokens")
    rows = sum(np.any(wanted != tables_after([], "tokens")[0], axis=1))
    shapes = [each.numpy().shape for each in whole.variables[2:]]
    assert shapes[0] == shapes[1]
    assert rows <= shapes[0][0] <= 1.25 * rows < 40
    assert shapes[2] == (50,)
    assert all(isinstance(each, keras.Variable) for each in whole.variables)
    assert len({each.path for each in whole.variables}) == 5
    found, loaded = tables_after(["rows"] * 5, "tokens", saved_after=3)
    np.testing.assert_array_equal(found, wanted)
    assert [each.numpy().shape for each in loaded.variables[2:]] == shapes


def test_moments_of_all_rows_become_moments_of_rows_in_use():
    """JAX, PyTorch and several devices store those of all rows, as a table of another name does here."""
    steps = ["rows"] * 5
    found, loaded = tables_after(steps, "vectors", saved_after=3, then="tokens")
    np.testing.assert_array_equal(found, tables_after(steps, "vectors")[0])
    assert [each.numpy().shape for each in loaded.variables[2:]] == [(50, 4), (50, 4), (50,)]


def test_moments_of_rows_in_use_become_moments_of_all_rows():
    _, wanted = tables_after(["rows"] * 3, "vectors")
    _, optimizer = tables_after(["rows"] * 3, "tokens")
    store = {}
    optimizer.save_own_variables(store)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope(), keras.name_scope("embedding"):
        optimizer = FineTuningAdamW()
        optimizer.build([keras.Variable(np.zeros((50, 4)), dtype="float32", name="tokens")])
    optimizer.load_own_variables(store)
    for found, expected in zip(optimizer.variables, wanted.variables, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_a_store_of_another_model_is_told_by_keras():
    _, optimizer = tables_after([], "tokens")
    with pytest.warns(UserWarning, match="5 variables whereas the saved optimizer has 7"):
        optimizer.load_own_variables({str(each): np.zeros(1) for each in range(7)})


@pytest.mark.parametrize("rows", [40, 60])
def test_moments_of_a_table_of_another_size_are_not_taken(rows):
    _, other = tables_after(["rows"], "vectors")
    store = {}
    other.save_own_variables(store)
    optimizer = FineTuningAdamW()
    with keras.name_scope("embedding"):
        optimizer.build([keras.Variable(np.zeros((rows, 4)), dtype="float32", name="tokens")])
    with pytest.warns(UserWarning, match="Skipping variable loading"):
        optimizer.load_own_variables(store)


def test_a_table_in_half_precision_beside_another_is_loaded_as_it_was():
    def made():
        optimizer, tables = FineTuningAdamW(), []
        for dtype, rows in (("bfloat16", 5), ("float32", 6)):
            with keras.name_scope(dtype):
                tables.append(keras.Variable(np.zeros((rows, 4)), dtype=dtype, name="tokens"))
        optimizer.build(tables)
        return optimizer

    store, loaded = {}, made()
    made().save_own_variables(store)
    loaded.load_own_variables(store)
    assert [each.shape[0] for each in loaded.variables if "places" in each.path] == [6]


def test_a_model_of_keras_with_such_a_table_is_not_compiled_by_xla():
    ids = keras.Input((3,), dtype="int32")
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(PretrainedEmbedding(20, 4, 8)(ids)))
    model.compile(FineTuningAdamW(0.1, global_clipnorm=1.0), "mse")
    model.fit(np.array([[1, 2, 3], [4, 1, 0]]), np.ones((2, 4)), epochs=2, verbose=0)
    moments = [each.numpy() for each in model.optimizer.variables if "tokens" in each.name]
    assert [each.shape for each in moments] == [(5, 4), (5, 4), (20,)]


def test_what_the_optimizer_cannot_do_is_refused_and_exclusions_count():
    with pytest.raises(ConfigError, match="`amsgrad`"):
        FineTuningAdamW(amsgrad=True)
    optimizer = FineTuningAdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["kernel"])
    assert stepped(optimizer, {"kernel": np.ones(2)}, [[np.zeros(2)]])[0].tolist() == [1, 1]


@pytest.mark.parametrize("shape", [(5,), (5, 2, 3)])
def test_tables_of_any_rank_are_updated(shape):
    table = keras.Variable(np.ones(shape, "float32"), name="table")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table.value, [[1, 3], [1, 1]]))
    FineTuningAdamW(0.1).apply_gradients([(tape.gradient(loss, table.value), table)])
    moved = (np.array(table) < 1).reshape(5, -1).all(axis=1)
    assert moved.tolist() == [False, True, False, True, False]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    file = tmp_path_factory.mktemp("rows") / "films.jsonl"
    rows = zip(TEXTS, LABELS, strict=True)
    file.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return file
