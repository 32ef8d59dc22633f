"""The benchmarks compute right figures, and no contestant can stop the others. No test measures time."""

import asyncio
import csv
import importlib.util
import itertools
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import (
    backends,
    encoders,
    equal_bits,
    equal_bits_worker,
    memory,
    prediction,
    pretrained,
    reference,
    scaling,
    serving,
    serving_lengths,
    serving_worker,
)
from benchmarks.case import Case, seeded_lengths
from benchmarks.commands import main
from benchmarks.figures import bars
from benchmarks.figures import scaling as scaling_figure
from benchmarks.machine import machine
from benchmarks.peers import pretrained_encoders
from benchmarks.peers.keras_blocks import ours
from benchmarks.peers.keras_own import own
from benchmarks.process import Child, Worker, WorkerError
from benchmarks.results import Result, exponent, write_csv
from benchmarks.rounds import (
    Contestant,
    Settings,
    Workers,
    measure_memory,
    refusal,
    summary,
)
from benchmarks.serving_contest import IN_PROCESS, OURS, PLAIN, START_UP, Server
from benchmarks.usage import anonymous_bytes, cpu_seconds, tree
from keras_selfattn import models
from keras_selfattn.export import export_saved_model, saved_model
from keras_selfattn.layers.tensorflow.int8_products import runs_int8_products

COMMAND = [sys.executable, "-m", "benchmarks"]
SETTINGS = Settings(rounds=3, seconds=1e-4, deadline=60)
CASE = Case("case", (5, 3, 2), 16, heads=4, dropout=0.0)


LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads Linux' files")


def contestant(name):
    here = str(Path(__file__).parents[1])
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    return Contestant(name, f"contestants:{name}", {"PYTHONPATH": path})


@pytest.fixture
def worker():
    """Starts a worker by the name of what it builds."""
    started = []

    def start(name, deadline=60.0):
        made = contestant(name)
        started.append(Worker(made.build, environment=dict(made.environment), deadline=deadline))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_a_row_holds_everyone_and_says_why_some_were_skipped():
    """A dying, an aborting and a missing contestant leave the others their figures."""
    names = ("counts", "dies", "aborts", "wants_a_missing_package")
    with Workers(SETTINGS) as workers:
        good, *skipped = workers.measure("row", {}, [contestant(name) for name in names])
    assert (good.row, good.contestant, good.note, good.skipped) == ("row", "counts", "plain", "")
    assert set(good.figures) == {"cpu median ms", "cpu min ms", "wall median ms", "wall min ms"}
    assert [result.skipped for result in skipped] == [
        "out of luck",
        "killed by SIGABRT",
        "ModuleNotFoundError: No module named 'no_such_engine'",
    ]
    assert all(result.figures == {} for result in skipped)


@pytest.mark.process
@pytest.mark.parametrize("together", [True, False])
def test_contestants_of_a_row_are_built_at_the_same_time_where_that_is_asked_for(together, tmp_path):
    case = {"folder": str(tmp_path), "patience": 60 if together else 0.1, "expected": 2}
    entries = [replace(contestant("meets"), name=name) for name in ("one", "other")]
    with Workers(SETTINGS, one_thread=False, built_together=together) as workers:
        first, second = workers.measure("row", case, entries)
    assert (first.contestant, second.contestant, second.skipped) == ("one", "other", "")
    assert ("built alone" in first.skipped) is not together


@pytest.mark.process
def test_a_worker_that_hangs_is_killed_at_its_deadline(worker):
    hanging = worker("hangs", deadline=4.0)
    hanging.ask("prepare", case={})
    start = time.monotonic()
    with pytest.raises(WorkerError, match="no answer within 4 s"):
        hanging.ask("warm", seconds=1.0)
    assert time.monotonic() - start < 60  # not the 600 s that it sleeps
    assert not hanging.alive


def test_a_worker_answers_on_after_a_failure_and_is_gone_after_close(worker):
    counting = worker("counts")
    with pytest.raises(WorkerError, match="nothing is prepared"):
        counting.ask("time", calls=1)
    assert counting.ask("prepare", case={}) == {"form": "plain"}
    assert set(counting.ask("time", calls=2)) == {"cpu", "wall"}
    counting.close()
    assert not counting.alive
    with pytest.raises(WorkerError):
        counting.ask("time", calls=1)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux' files")
def test_memory_is_what_the_first_call_needs():
    result = measure_memory("row", {"bytes": 200_000_000}, contestant("allocates"), SETTINGS)
    assert result.figures["memory MB"] == pytest.approx(200, rel=0.02)


def test_the_clock_of_predict_begins_with_its_first_window_on_the_disk():
    told = [(0.0, 0.0, 0.0), (1.0, 2.0, 0.25), (5.0, 6.0, 0.75), (7.0, 9.0, 1.0)]
    assert prediction._between(told) == (6.0, 7.0, 0.75)


def test_the_summary_has_median_and_least_in_milliseconds():
    times = [{"cpu": seconds, "wall": 2 * seconds} for seconds in (0.004, 0.001, 0.002)]
    assert summary(times) == {
        "cpu median ms": 2.0,
        "cpu min ms": 1.0,
        "wall median ms": 4.0,
        "wall min ms": 2.0,
    }


@pytest.mark.parametrize("value", [0.01, math.nan, math.inf])
def test_who_computes_something_else_is_refused(value):
    assert refusal({"difference": 1e-5, "gradient": 1e-5}, "float32") == ""
    assert "outputs differ" in refusal({"difference": value}, "float32")
    assert "gradients differ" in refusal({"difference": 0.0, "gradient": value}, "float32")
    assert refusal({"difference": 0.01}, "bfloat16") == ""
    assert refusal({"difference": 0.01, "gradient": 0.01}, "tensorfloat32") == ""
    assert "gradients differ" in refusal({"difference": 0.0, "gradient": 0.03}, "tensorfloat32")


def test_only_keeps_the_pairs_that_hold_every_text():
    settings = Settings(only=("32x128", "OURS"))
    assert settings.chosen("32x128, d=128", "ours")
    assert not settings.chosen("32x128, d=128", "torch")
    assert not settings.chosen("32x512, d=128", "ours")


def test_the_useful_operations_of_a_block_counted_by_hand():
    """Lengths 3 and 2, width 8: five tokens through 8x8 four times, 8x32 and 32x8; 9 + 4 pairs, twice."""
    by_hand = 2 * (5 * (4 * 64 + 2 * 256) + 2 * 13 * 8)
    assert Case("", (3, 2), 8).flops() == by_hand == 8096
    assert Case("", (3, 2), 8, training=True, layers=2).flops() == 6 * by_hand


def test_lengths_are_those_of_the_seed_from_half_the_longest_on():
    lengths = seeded_lengths(200, 64)
    assert lengths == seeded_lengths(200, 64)
    assert (lengths[0], min(lengths), max(lengths)) == (64, 32, 64)


def test_a_case_survives_its_way_to_the_worker_and_leaves_what_is_for_others():
    assert Case.from_json({**CASE.to_json(), "lengths": [5, 3, 2], "layer": "linear attention"}) == CASE


def test_inputs_weights_and_loss_are_the_same_for_all_and_padding_has_no_part_in_it():
    inputs, mask = CASE.inputs()
    assert inputs.shape == (3, 5, 16)
    np.testing.assert_array_equal(mask.sum(1), CASE.lengths)
    np.testing.assert_array_equal(CASE.inputs()[0], inputs)
    assert (CASE.cotangent()[~mask] == 0).all()
    assert all((array != 0).all() for array in CASE.weights()[0].values())


@pytest.mark.parametrize("build", [ours, own])
def test_a_block_with_the_copied_weights_equals_the_reference_in_outputs_and_along_the_direction(build):
    import tensorflow as tf

    stack, (inputs, mask) = build(CASE), CASE.inputs()
    with tf.GradientTape() as tape:
        outputs = stack(tf.constant(inputs), tf.constant(mask), training=False)
        loss = tf.reduce_sum(outputs * CASE.cotangent())
    np.testing.assert_allclose(
        outputs.numpy()[mask], reference.real_outputs(CASE, CASE.weights(), "float64"), atol=1e-5
    )
    gradients = tape.gradient(loss, [variable.value for variable in stack.weights])
    slope = sum(
        np.sum(g.numpy() * d.reshape(g.shape)) for g, d in zip(gradients, stack.direction(CASE), strict=True)
    )
    assert slope == pytest.approx(reference.slope(CASE), rel=1e-4)


def test_the_exponent_of_known_powers():
    sizes = [100, 200, 400, 800]
    assert exponent(sizes, [7 * n**1.5 for n in sizes]) == pytest.approx(1.5)
    assert exponent(sizes, [3.0] * 4) == pytest.approx(0)
    assert exponent(sizes, [0, 2, 4, 8]) == pytest.approx(1)  # of 0 there is no logarithm
    assert math.isnan(exponent(sizes, [0, 0, 0, 8]))


def test_growth_is_fitted_for_those_who_have_every_size():
    results = [Result(f"n={n}", "whole", {"MB": n**2}) for n in (2, 4, 8)]
    results += [Result("n=2", "part", {"MB": 1.0}), Result("n=4", "part", skipped="no memory")]
    (fitted,) = memory.growth_of(results, "growth", (2, 4, 8), "MB")
    assert (fitted.row, fitted.contestant) == ("growth", "whole")
    assert fitted.figures["memory exponent"] == pytest.approx(2)
    kinked = [Result(f"n={n}", "small", {"MB": size}) for n, size in ((2, 0.01), (4, 4.0), (8, 8.0))]
    (fitted,) = memory.growth_of(kinked, "growth", (2, 4, 8), "MB", least=1.0)
    assert fitted.figures["memory exponent"] == pytest.approx(1)


def test_path_lengths_of_both_forms_of_convolution():
    """With k = 9, a dilated layer multiplies the receptive field by 9, and a plain one adds 9."""
    assert [scaling.dilated_path(n, 9) for n in (1, 2, 9, 10, 81, 82, 6561)] == [1, 1, 1, 2, 2, 3, 4]
    assert [scaling.stacked_path(n, 9) for n in (1, 9, 10, 81, 1024)] == [1, 1, 2, 9, 114]
    assert scaling.dilated_path(5**3, 5) == 3  # math.log(125, 5) is above 3


def test_every_kind_has_its_formula_and_its_value():
    found = {kind.name: (kind.cost, kind.sequential[1](1000), kind.path[1](1000)) for kind in scaling.KINDS}
    assert found["convolution"] == ("k n d²", 1, 112)
    assert found["dilated convolution"] == ("k n d²", 1, 4)
    assert found["LSTM"] == found["GRU"] == ("n d²", 1000, 1000)
    assert found["self-attention"] == ("n² d", 1, 1)
    assert found["window attention"] == ("n w d", 1, 8)
    assert found["linear attention"] == ("n d² / h", 1, 1)


def test_the_csv_has_every_result_with_the_machine_and_empty_cells_for_what_is_unknown(tmp_path):
    results = [
        Result("a, b", "ours", {"cpu median ms": 1.5}, note='"so"'),
        Result("a, b", "torch", {"memory MB": 2.0}),
        Result("a, b", "OpenVINO", skipped="No module named 'openvino'"),
    ]
    write_csv(tmp_path / "out.csv", results)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        first, second, third = csv.DictReader(file)
    assert (first["row"], first["contestant"], first["note"]) == ("a, b", "ours", '"so"')
    assert (first["cpu median ms"], first["memory MB"]) == ("1.5", "")
    assert (second["cpu median ms"], second["memory MB"]) == ("", "2.0")
    assert third["skipped"] == "No module named 'openvino'"
    assert "cores" in first["machine"]
    assert "tensorflow" in first["versions"]
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_figures_draw_what_was_measured():
    results = [Result("row", "ours", {"x": 1.0}), Result("row", "torch", skipped="missing")]
    (axes,) = [axes for axes in bars(results, "x", "label").axes if axes.get_visible()]
    assert [patch.get_width() for patch in axes.patches] == [1.0]
    measured = [
        Result(f"n={n}", "LSTM", {"n": n, "d": d, "cpu median ms": n * d, "memory MB": n})
        for n, d in ((8, 2), (16, 2), (32, 2), (8, 4))
    ]
    fitted = Result(scaling.EXPONENTS, "LSTM", {"time with length": 1.0})
    by_length, _, by_width = scaling_figure([*measured, fitted]).axes
    assert by_length.lines[0].get_xydata().tolist() == [[8, 16], [16, 32], [32, 64]]
    assert by_length.lines[0].get_label() == "LSTM: 1.00"
    assert by_width.lines[0].get_xydata().tolist() == [[2, 16], [4, 32]]


def test_rows_of_real_texts_have_their_lengths_in_words(tmp_path):
    (case, wider) = encoders.sentence_cases("file", ["one", "one two three", "one two"], training=False)
    assert case.lengths == (1, 3, 2)
    assert (case.name, wider.width) == ("3 texts of file, longest 3 words, d=128", 512)


def test_what_cannot_work_is_refused_before_anything_is_measured(tmp_path):
    (tmp_path / "rows.csv").write_text("text\nsome words\n", encoding="utf-8")
    wrong_column = ["attention", "--data", f"{tmp_path}/rows.csv", "--text-column", "words"]
    result = CliRunner().invoke(main, wrong_column)
    assert result.exit_code == 1
    assert "no column 'words'" in result.output
    assert CliRunner().invoke(main, ["attention", "--rounds", "0"]).exit_code == 2
    nothing = CliRunner().invoke(main, ["training", "--only", "no such row"])
    assert nothing.exit_code == 1
    assert "Nothing to measure" in nothing.output
    assert CliRunner().invoke(main, ["serving", "--connections", "0"]).exit_code == 2


@pytest.mark.process
def test_the_command_measures_ours_and_writes_the_files(tmp_path):
    arguments = ["training", "--quick", "--rounds", "1", "--only", "ours", "--no-memory"]
    arguments += ["--csv", f"{tmp_path}/out.csv", "--plot", f"{tmp_path}/out.png"]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "skipped, for want of --data" in done.stdout
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        row, on_jax = csv.DictReader(file)
    assert (row["row"], row["contestant"], row["skipped"]) == ("2x16, d=32", "ours", "")
    assert on_jax["contestant"] == "ours on JAX"
    assert float(row["difference"]) < 1e-5
    assert float(row["gradient"]) < 1e-4
    assert min(float(row[name]) for name in ("cpu median ms", "wall min ms", "matmul GFLOP/s")) > 0
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.process
def test_without_all_cores_there_is_no_wall_time(tmp_path):
    arguments = ["attention", "--quick", "--rounds", "1", "--only", "ours", "--no-memory"]
    arguments += ["--no-all-cores", "--csv", f"{tmp_path}/out.csv"]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "CPU ms" in done.stdout
    assert "wall" not in done.stdout
    assert "wall" not in (tmp_path / "out.csv").read_text("utf-8")


@pytest.mark.process
@LINUX
def test_an_interrupt_ends_the_command_and_its_workers():
    command = [*COMMAND, "dropout", "--quick", "--only", "ours"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "building" in process.stderr.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        end = time.monotonic() + 30
        while not children.read_text() and time.monotonic() < end:
            time.sleep(0.05)
        workers = children.read_text().split()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "Interrupted." in errors
    assert workers
    end = time.monotonic() + 30  # who takes the dead out of the list may be busy
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert [pid for pid in workers if Path(f"/proc/{pid}").exists()] == []


@pytest.mark.process
@LINUX
def test_servers_answer_under_load_and_one_that_cannot_start_says_why():
    """Ours and a plain server answer every request; a command that fails is a row with its last words."""
    broken = Server("broken", (sys.executable, "-c", "raise SystemExit('no such model')"))
    settings = Settings(rounds=1, seconds=0.3, deadline=120, quick=True)
    servers = (OURS, PLAIN, broken)
    table = serving.run(settings, connections=(2,), servers=servers, in_process=IN_PROCESS[1:])
    found = {(result.row, result.contestant): result for result in table.results}
    for server in (OURS, PLAIN):
        result = found["2 connections", server.name]
        assert (result.skipped, result.note, result.figures["failures"]) == ("", "", 0)
        assert 0 < result.figures["p50 ms"] <= result.figures["p99 ms"] <= result.figures["p99.9 ms"]
        assert min(result.figures[name] for name in ("requests/s", "client cpu ms", "memory MB")) > 0
        assert min(found[START_UP, server.name].figures.values()) > 0
    assert found["2 connections", "broken"].skipped == found[START_UP, "broken"].skipped == "no such model"
    for batch in (1, 64):
        of_one = found[f"in process, batch of {batch}", "1 thread an operation"].figures
        assert min(of_one.values()) > 0


def test_short_texts_are_the_shortest_and_long_ones_are_joined():
    texts = [f"{'long ' * (number % 10)}{number}" for number in range(40)]
    short, long = serving_lengths.short_and_long(texts)
    assert short == ["0", "10", "20", "30"]
    assert long == [" ".join(texts[start : start + 8]) for start in range(0, 40, 8)]


@pytest.mark.process
@LINUX
def test_short_texts_are_measured_beside_long_ones_on_a_server(tmp_path, monkeypatch):
    """Every load of a model that writes texts has its figures."""
    keras.utils.set_random_seed(0)
    small = {"width": 8, "num_layers": 1, "decoder_layers": 1, "num_heads": 2, "min_count": 1}
    model = models.SequenceToSequence({**small, "max_new_tokens": 7, "max_tokens": 30, "tokens": "words"})
    model.adapt(["a b c", "c b", "b a"] * 4, ["x y z", "z y", "y x"] * 4)
    monkeypatch.setattr(saved_model, "try_saved_model", lambda *_: {"load_seconds": 0.0, "request_ms": 0.0})
    export_saved_model(model, tmp_path / "m")
    settings = Settings(rounds=1, seconds=0.2, deadline=120)
    table = serving_lengths.run(settings, tmp_path / "m", ["a b c", "c b"] * 10, (2,), 3)
    found = {(result.row, result.contestant): result.figures for result in table.results}
    beside = "beside, 2 of long texts"
    assert [*found] == [
        (serving_lengths.SHORT, "alone"),
        (serving_lengths.LONG, "alone"),
        (serving_lengths.SHORT, beside),
        (serving_lengths.LONG, beside),
        (serving_lengths.MIXED, "3 clients"),
    ]
    for figures in found.values():
        assert 0 < figures["p50 ms"] <= figures["p95 ms"]
        assert (figures["requests/s"] > 0, figures["failures"]) == (True, 0)
    alone, other = (found[serving_lengths.SHORT, name] for name in ("alone", beside))
    assert other["times alone"] == other["p50 ms"] / alone["p50 ms"]


@LINUX
def test_the_clients_count_what_fails_with_the_first_reason_and_go_on():
    """A server that closes each second connection unanswered."""
    program = (
        "import itertools, socket, sys\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "print(server.getsockname()[1], flush=True)\n"
        "for number in itertools.count():\n"
        "    one, _ = server.accept()\n"
        "    one.recv(65536)\n"
        "    if number % 2: one.sendall(b'HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\n{}')\n"
        "    one.close()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as server:
        address = f"127.0.0.1:{int(server.stdout.readline())}"
        try:
            with asyncio.Runner() as runner:
                session = serving_worker.Session(runner)
                found = session.load("http", address, "/", 1, 0.5, server.pid)
        finally:
            server.kill()
    assert found["reason"] == "the server closed the connection"
    assert found["figures"]["failures"] > 0
    assert found["figures"]["requests/s"] > 0


def test_the_median_of_rounds_is_shown_and_all_failures():
    rounds = [{"p50 ms": value, "failures": 1} for value in (1.0, 9.0, 2.0)]
    assert serving.over_rounds(rounds) == {"p50 ms": 2.0, "failures": 3}
    assert serving_worker.quantile(range(1, 1001), 0.999) == 999


@LINUX
def test_what_a_process_uses_is_that_of_all_it_started_and_all_of_them_end_with_it():
    """A shell's child, which left the shell's session, takes the time and the memory; the shell waits."""
    busy = "import time; sum(range(10**7)); kept = bytearray(b'x') * 10**8; time.sleep(600)"
    with Child(["sh", "-c", f'setsid "{sys.executable}" -c "{busy}"; true']) as child:
        end = time.monotonic() + 60
        while anonymous_bytes(child.pid) < 1e8 and time.monotonic() < end:
            time.sleep(0.05)
        assert 1e8 <= anonymous_bytes(child.pid) < 2e8
        assert 0.05 < cpu_seconds(child.pid) < 60
        started = tree(child.pid)
    assert len(started) == 2
    end = time.monotonic() + 30
    while any(map(is_running, started)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, started))


def is_running(pid):
    """True if a process exists and is not a zombie, which may wait long for a new parent."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return False


@pytest.mark.process
def test_fine_tuning_is_measured_on_a_set_and_a_missing_peer_is_named(tmp_path):
    from pretrained_folders import write_folder

    folder, data = write_folder(tmp_path / "m"), tmp_path / "sets" / "trec"
    data.mkdir(parents=True)
    for part, count in (("train", 30), ("test", 6)):
        lines = [f"{place % 2} {('bad', 'good')[place % 2]} film {place}\n" for place in range(2 * count)]
        (data / f"TREC.{part}.all").write_text("".join(lines))
    asked = ["fine-tuning", "--model", str(folder), "--data", str(data.parent), "--rows-per-class", "20"]
    table = tmp_path / "found.csv"
    done = CliRunner().invoke(main, [*asked, "--quick", "--csv", str(table)])
    assert done.exit_code == 0, done.output
    with table.open() as lines:
        ours, theirs, _, linear = csv.DictReader(lines)
    assert not ours["skipped"], ours
    assert (ours["row"], ours["contestant"]) == ("trec", "ours")
    assert float(ours["log loss"]) > 0
    assert float(ours["cpu s"]) > 0
    assert theirs["contestant"] == "transformers on torch"
    assert theirs["skipped"] == "torch is not installed" or float(theirs["cpu s"]) > 0
    assert linear["contestant"] == "logistic regression"
    assert float(linear["log loss"]) > 0


@pytest.fixture(scope="module")
def sentence_encoder(tmp_path_factory):
    """The folder of a tiny encoder of sentences, as MiniLM's."""
    from pretrained_folders import BERT, PIECES, write_folder
    from tokenizers.implementations import BertWordPieceTokenizer

    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds.items()]
    pooling = {"1_Pooling/config__json": {"pooling_mode_mean_tokens": True}}
    folder = write_folder(tmp_path_factory.mktemp("encoder"), BERT, modules__json=modules, **pooling)
    pieces = BertWordPieceTokenizer({piece: place for place, piece in enumerate(PIECES)})
    pieces.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.process
def test_similarity_is_measured_once_and_known_afterwards(sentence_encoder, tmp_path):
    for part in ("train", "dev", "test"):
        lines = [
            f"a good film {place},the {('bad', 'good')[place % 2]} film,{place % 6}\n" for place in range(40)
        ]
        (tmp_path / f"en-{part}.csv").write_text("".join(lines))
    kept, table = tmp_path / "kept.jsonl", tmp_path / "found.csv"
    asked = ["similarity", "--model", str(sentence_encoder), "--data", str(tmp_path), "--csv", str(table)]
    asked += ["--quick", "--only", "cross", "--only", "ours", "--epochs", "1", "--results", str(kept)]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    with table.open() as lines:
        (ours,) = csv.DictReader(lines)
    assert not ours["skipped"], ours
    assert (ours["row"], ours["contestant"], ours["best epoch"]) == ("en cross-encoder", "ours", "1")
    assert float(ours["cpu s"]) > 0
    assert float(ours["memory MB"]) > 0
    assert -1 <= float(ours["spearman"]) <= 1
    again = CliRunner().invoke(main, asked)
    assert "(known)" in again.output, again.output
    assert len(kept.read_text().splitlines()) == 1
    other = CliRunner().invoke(main, [*asked, "--rate", "0.001", "--loss", "order"])
    said = " ".join(other.output.split())
    assert "as a cross-encoder is squared error or cross-entropy. Received 'order'" in said


@pytest.mark.process
def test_vectors_of_a_pretrained_encoder_are_measured(sentence_encoder, tmp_path):
    (tmp_path / "texts.csv").write_text("text\n" + "good films\nbad film.\n" * 4)
    table, chosen = tmp_path / "found.csv", ["--quick", "--only", "float32", "--only", "ours, served"]
    asked = ["--model", str(sentence_encoder), "--data", str(tmp_path / "texts.csv"), "--csv", str(table)]
    done = CliRunner().invoke(main, ["pretrained", *chosen, *asked])
    assert done.exit_code == 0, done.output
    with table.open() as lines:
        (found,) = csv.DictReader(lines)
    assert (found["row"].split()[-1], found["contestant"]) == ("float32", "ours, served")
    assert not found["skipped"], found
    assert 0 <= float(found["difference"]) <= 1e-5, found
    assert float(found["cpu median ms"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-5), ("bfloat16", 0.1), ("int8", 0.1)])
@pytest.mark.filterwarnings(r"ignore:`precision=\"int8\"` makes a model smaller, but not faster")
def test_vectors_of_each_type_are_those_of_the_reference(sentence_encoder, dtype, limit, unchecked):
    if dtype == "int8" and not runs_int8_products():
        pytest.skip("TensorFlow runs no kernels of oneDNN here")
    texts = ["good films", "bad film."] * 4
    fields = {"model": str(sentence_encoder), "texts": texts, "dtype": dtype}
    wanted = pretrained_encoders.in_units(pretrained.vectors(sentence_encoder, texts))
    for contestant in (pretrained_encoders.ours, pretrained_encoders.ours_exported):
        np.testing.assert_allclose(contestant(fields).outputs(), wanted, atol=limit)


@pytest.mark.process
def test_backends_are_trained_and_their_compilations_counted(tmp_path):
    pytest.importorskip("jax")
    table = tmp_path / "found.csv"
    arguments = ["backends", "--quick", "--only", "JAX", "--only", "series", "--csv", str(table)]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    with table.open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["contestant"], row["skipped"]) == ("JAX", "")
    assert row["note"].startswith("on ")  # the CPU, or the GPU that JAX found
    assert 2 <= float(row["compiled"]) <= 7
    assert 0 <= float(row["accuracy"]) <= 1
    assert 0 < float(row["loss"]) < 10


@pytest.mark.slow
@pytest.mark.process
def test_searches_for_settings_are_measured_on_a_set(tmp_path):
    data, table = tmp_path / "trec", tmp_path / "found.csv"
    data.mkdir()
    for part, count in (("train", 60), ("test", 10)):
        lines = [f"{place % 2} {('bad', 'good')[place % 2]} film {place}\n" for place in range(2 * count)]
        (data / f"TREC.{part}.all").write_text("".join(lines))
    asked = ["tuning", "--data", str(tmp_path), "--sets", "trec", "--minutes", "0.0001", "--seeds", "1"]
    done = CliRunner().invoke(main, [*asked, "--quick", "--csv", str(table)])
    assert done.exit_code == 0, done.output
    with table.open() as lines:
        found = {row["contestant"]: row for row in csv.DictReader(lines)}
    assert set(found) == {"given settings", "the list", "Optuna"}
    given = float(found["given settings"]["log loss"])
    assert given > 0
    for name, row in found.items():
        if name == "Optuna" and importlib.util.find_spec("optuna") is None:
            assert row["skipped"] == "optuna is not installed"
        else:  # each begins with the given settings, after which there was no time
            assert float(row["log loss"]) == pytest.approx(given, rel=1e-3)


def test_the_large_model_is_trained_if_it_is_asked_for(monkeypatch):
    trained = {"figures": {"accuracy": 1.0}, "device": "a card"}
    monkeypatch.setattr(backends, "_in_process", lambda backend, row, settings: trained)
    rows = [{result.row for result in backends.run(SETTINGS, large=large).results} for large in (False, True)]
    assert rows[1] - rows[0] == {"large: texts of 128 words"}
    model, texts, targets = backends._TASKS["large: texts of 128 words"](8)
    assert (model.config.width, model.config.num_layers) == (256, 4)
    assert {len(text.split()) for text in texts} == {128}
    assert len(texts) == len(targets) == 8


@pytest.mark.process
def test_an_encoder_is_measured_on_the_device_of_jax_beside_the_reference(tmp_path):
    pytest.importorskip("jax")
    table = tmp_path / "found.csv"
    only = [word for text in ("JAX", "bfloat16, inference") for word in ("--only", text)]
    arguments = ["accelerated", "--quick", "--rounds", "1", *only, "--csv", str(table)]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["contestant"] for row in rows] == ["ours on JAX", "Keras' own layers on JAX"]
    for row in rows:
        assert (row["skipped"], row["note"][:3]) == ("", "on ")
        assert 0 < float(row["difference"]) < 0.15
        assert float(row["wall median ms"]) > 0


def test_the_machine_is_named_with_its_cards(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho A Card\necho A Card\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert machine().endswith(" cores, A Card, A Card")
    program.write_text("#!/bin/sh\nexit 9\n")  # as without a driver
    assert machine().endswith(" cores")


def test_runs_with_other_bits_are_counted_by_piece():
    """Each fifth run of one piece is off by 0.5 in one of four rows; the first runs decide what is right."""
    runs = itertools.count()

    def sometimes_off():
        return np.float32([1, 1, 1, 1.5 if next(runs) % 5 == 4 else 1])

    seen: dict[str, equal_bits.Watched] = {}
    pieces = {"off": sometimes_off, "steady": lambda: np.ones((4, 2), "float32")}
    equal_bits_worker.compare(pieces, 40, 2, lambda line: equal_bits.add(seen, line))
    assert seen == {"off": equal_bits.Watched(80, 16, 0.5, 0.25), "steady": equal_bits.Watched(80)}
    with pytest.raises(RuntimeError, match="no two"):
        equal_bits_worker.compare({"other": lambda: np.random.normal(size=3)}, 20, 1, print)
