"""A run that ends between two calls of the disk, or while a window waits: what is left fits the next run."""

import os
from concurrent.futures import Executor, Future

import pytest

from keras_selfattn.asking.input_cells import NamedColumns
from keras_selfattn.batch.journal import open_journal, partial_of, published
from keras_selfattn.batch.part import answered, part_for
from keras_selfattn.errors import DataError
from keras_selfattn.files import atomic
from keras_selfattn.serving.client import Signature, TensorSpec

MADE_OF = {"input": [["rows.csv", 1, 1]]}


def finish(draft, target):
    draft.replace(target)


def whole(journal, content=b"rows"):
    with journal.writing() as draft:
        draft.append(content, b"")
        draft.commit([1], rows=1, failed=0, read=True)
    journal.end_part("rows.csv", finish)


def test_texts_that_a_bound_cut_are_counted_over_the_runs_of_an_output(tmp_path):
    output = tmp_path / "out.csv"
    for place, cut in ((1, 2), (2, 3)):
        with open_journal(output, MADE_OF, overwrite=False) as journal, journal.writing() as draft:
            draft.append(b"rows", b"")
            draft.commit([place], rows=1, failed=0, cut=cut)
    with open_journal(output, MADE_OF, overwrite=False) as journal:
        assert (journal.state.rows, journal.state.cut) == (2, 5)


@pytest.mark.parametrize("folder", [False, True])
def test_a_file_that_a_kill_left_half_made_is_no_part_of_the_output(tmp_path, folder):
    output = tmp_path / "out"
    with open_journal(output, MADE_OF, overwrite=False) as journal:
        for number in range(9):  # the order of a folder is that of the disk: one of many comes first
            half = partial_of(output) / "done" / f".rows.csv.tmp-{number:08}"
            half.parent.mkdir(exist_ok=True)
            half.write_bytes(b"ro")
        whole(journal)
        journal.publish(overwrite=False, whole_folder=folder)
    if folder:
        assert [path.name for path in output.iterdir()] == ["rows.csv"]
    else:
        assert output.read_bytes() == b"rows"


def test_a_run_killed_while_it_removes_its_folder_is_known_as_whole(tmp_path, monkeypatch):
    output = tmp_path / "out.csv"
    with open_journal(output, MADE_OF, overwrite=False) as journal:
        whole(journal)
        unlink = os.unlink

        def killed(path, **options):
            unlink(path, **options)
            raise SystemError("killed")

        monkeypatch.setattr(os, "unlink", killed)
        with pytest.raises(SystemError):
            journal.publish(overwrite=False, whole_folder=False)
        monkeypatch.undo()
    assert partial_of(output).exists()
    assert published(output, MADE_OF) is not None
    assert not partial_of(output).exists()


def test_an_output_that_another_run_has_made_meanwhile_is_kept(tmp_path):
    output = tmp_path / "out.csv"
    with open_journal(output, MADE_OF, overwrite=False) as journal:
        whole(journal)
        output.write_bytes(b"other")
        with pytest.raises(FileExistsError, match="appeared meanwhile"):
            journal.publish(overwrite=False, whole_folder=False)
    assert output.read_bytes() == b"other"


def test_the_lock_of_a_removed_folder_is_none(tmp_path, monkeypatch):
    def flock(_descriptor, _how):
        partial_of(output).rename(tmp_path / "gone")  # as the run that held it ends

    output = tmp_path / "out.csv"
    monkeypatch.setattr(atomic.fcntl, "flock", flock)
    with (
        pytest.raises(DataError, match="Another process is writing"),
        open_journal(output, MADE_OF, overwrite=False),
    ):
        pass


class Queue(Executor):
    """Runs nothing; its first call fails, as that of a server that went away does."""

    def __init__(self):
        self.calls = []

    def submit(self, *_call, **_options):
        self.calls.append(Future())
        if len(self.calls) == 1:
            self.calls[0].set_exception(DataError("gone"))
        return self.calls[-1]


class Model:
    signature = Signature({"text": TensorSpec("string", (None,))}, {"score": TensorSpec("float32", (None,))})


def test_after_a_failed_batch_the_batches_of_the_next_window_are_dropped(tmp_path):
    source = tmp_path / "rows.csv"
    source.write_text("text\n" + "a\n" * 20_000)
    model, queue = Model(), Queue()
    part = part_for(
        source,
        tmp_path / "out.csv",
        model.signature,
        (),
        columns=NamedColumns(),
        trained_columns=NamedColumns(),
        separator=None,
        has_header=True,
        batch_size=128,
        named=False,
    )
    with pytest.raises(DataError, match="gone"):
        list(answered(part, None, model, queue))
    assert len(queue.calls) == 2 * 64  # two windows of 8,192 rows
    assert all(call.cancelled() for call in queue.calls[1:])


def test_only_what_differs_is_told(tmp_path):
    output = tmp_path / "out.csv"
    made_of = {"model": "one", "options": {"outputs": ()}}
    with open_journal(output, made_of, overwrite=False) as journal:
        whole(journal)
    with (
        pytest.raises(DataError, match='made of something else: model "one", now "two"[.]'),
        open_journal(output, made_of | {"model": "two"}, overwrite=False),
    ):
        pass
