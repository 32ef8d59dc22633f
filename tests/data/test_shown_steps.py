"""Readers that open many files show their steps to whoever looks, and read the same rows for nobody."""

import numpy as np
from PIL import Image
from rich.console import Console

from keras_selfattn.cli.shared import console
from keras_selfattn.data import read_audio, read_images
from keras_selfattn.data.shown_steps import showing
from keras_selfattn.rows.wav_files import wav_bytes


def folder_of(place, write):
    for label in ("a", "b"):
        (place / label).mkdir(parents=True)
        for number in range(3):
            write(place / label / str(number))
    return place


def sounds(place):
    content = wav_bytes(np.ones(80, "int16"), 8000)
    return folder_of(place, lambda file: file.with_suffix(".wav").write_bytes(content))


def test_each_file_is_a_step_of_its_reader(tmp_path):
    pictures = folder_of(
        tmp_path / "pictures",
        lambda file: Image.fromarray(np.zeros((4, 4), "uint8")).save(file.with_suffix(".png")),
    )
    seen = []

    def show(steps, what):
        for step in steps:
            seen.append(what)
            yield step

    with showing(show):
        assert len(read_audio(sounds(tmp_path / "sounds"))) == 6
        assert len(read_images(pictures)) == 6
    assert seen == ["Reading sounds"] * 6 + ["Reading pictures"] * 6
    assert len(read_audio(tmp_path / "sounds")) == 6
    assert len(seen) == 12


def test_a_terminal_shows_a_bar_and_a_pipe_nothing(tmp_path, monkeypatch, capsys):
    place = sounds(tmp_path / "sounds")
    for terminal in (True, False):
        shown = Console(stderr=True, force_terminal=terminal, width=80)
        monkeypatch.setattr(console, "error_console", shown)
        with console.reading_steps():
            read_audio(place)
        assert ("Reading sounds" in capsys.readouterr().err) == terminal
