"""The entry of the command: what it says before it has imported anything."""

import sys
import types

import pytest

from keras_selfattn.cli import entry


def test_a_package_of_the_command_that_is_too_old_is_not_told_as_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_selfattn.cli.main", types.ModuleType("click"))
    with pytest.raises(ImportError, match="cannot import name 'main' from 'click'"):
        entry.main()


def test_ctrl_c_while_the_commands_are_imported_is_a_sentence(monkeypatch, capsys):
    class Interrupted:
        @staticmethod
        def find_spec(name, *_):
            if name == "keras_selfattn.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "keras_selfattn.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted, *sys.meta_path])
    with pytest.raises(SystemExit, match="130"):
        entry.main()
    assert capsys.readouterr().err == "Interrupted.\n"
