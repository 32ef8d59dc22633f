"""An import that fails because installed packages do not fit says which, and the command that mends it."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import keras_selfattn.cli
from keras_selfattn import extras
from keras_selfattn.asking import client_command
from keras_selfattn.cli import entry, main
from keras_selfattn.errors import PackageMisfitError
from keras_selfattn.extras import importing, misfit_error, misfits


@pytest.fixture
def installed(tmp_path):
    """A folder of packages, as pip leaves their metadata; gives a function that adds one."""

    def add(name, version, *requires, extras=()):
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Provides-Extra: {extra}" for extra in extras] + [
            f"Requires-Dist: {one}" for one in requires
        ]
        (folder / "METADATA").write_text("\n".join(lines) + "\n\nA long story.\n")

    add.folder = str(tmp_path)
    return add


def of_serve(add, protobuf="6.33.6"):
    """This project with two extras, as it was once seen after `pip install tritonclient[grpc]`."""
    add(
        "keras-selfattn",
        "1.0",
        "numpy>=1.26",
        'protobuf>=6.31.1; extra == "serve"',
        'grpcio_health.checking>=1.71; extra == "serve"',
        'ray[data]>=2.54; extra == "ray"',
        'keras-selfattn[serve]; extra == "all"',
        extras=("serve", "ray", "all"),
    )
    add("numpy", "2.4.6")
    add("grpcio-health-checking", "1.85.1", "protobuf<8.0.0,>=7.35.1", "grpcio>=1.85.1")
    add("grpcio", "1.85.3", 'enum34>=1.0; python_version < "3"', 'grpcio-tools>=1; extra == "protobuf"')
    if protobuf:
        add("protobuf", protobuf)


@pytest.mark.parametrize("extra", ["serve", "all"])
def test_a_package_that_another_one_cannot_use_is_named_with_both_versions(installed, extra):
    of_serve(installed)
    (found,) = misfits(extra, [installed.folder])
    assert str(found) == (
        "grpcio-health-checking 1.85.1 needs protobuf<8.0.0,>=7.35.1, and protobuf is 6.33.6"
    )
    assert found.mended == ">=7.35.1,<8.0.0"  # the strictest of all
    assert found.against == ""


def test_a_program_that_needs_the_older_version_is_named(installed):
    of_serve(installed)
    installed("tritonclient", "2.73.0", "numpy>=1", 'protobuf<7.0,>=6.30.0; extra == "grpc"', extras=["grpc"])
    (found,) = misfits("serve", [installed.folder])
    assert found.against == "tritonclient 2.73.0, which needs protobuf<7.0,>=6.30.0"


def test_packages_that_fit_and_those_of_other_extras_are_not_named(installed):
    of_serve(installed, "7.36.2")
    assert misfits("serve", [installed.folder]) == []


def test_a_package_that_is_missing_is_named(installed):
    of_serve(installed, None)
    (found,) = misfits("serve", [installed.folder])
    assert str(found) == "keras-selfattn 1.0 needs protobuf>=6.31.1, and protobuf is not installed"


def test_an_extra_of_a_needed_package_is_followed(installed):
    of_serve(installed)
    installed("ray", "2.60", 'pyarrow>=9; extra == "data"', 'smart-open; extra == "default"')
    installed("pyarrow", "8.0")
    assert [each.name for each in misfits("ray", [installed.folder])] == ["pyarrow"]


def test_packages_that_need_each_other_and_requirements_of_old_times_are_no_trouble(installed):
    installed("keras-selfattn", "1.0", 'first; extra == "serve"')
    installed("first", "1.0", "second", "what (is this) >> ;")
    installed("second", "1.0", "first>=2")
    assert [str(each) for each in misfits("serve", [installed.folder])] == [
        "second 1.0 needs first>=2, and first is 1.0"
    ]


def test_a_folder_without_metadata_is_no_package(installed):
    of_serve(installed)
    for name in ("numpy-0.1", "a_program-1.0", "~umpy-1.0"):  # as an interrupted pip leaves them
        (Path(installed.folder) / "earlier" / f"{name}.dist-info").mkdir(parents=True)
    (found,) = misfits("serve", [f"{installed.folder}/earlier", installed.folder])
    assert found.name == "protobuf"


def test_nothing_is_said_where_this_project_is_not_installed(installed):
    installed("protobuf", "1.0")
    assert misfits("serve", [installed.folder]) == []


@pytest.fixture
def misfit(installed, monkeypatch):
    """This Python as it was seen: its protobuf is too old for grpcio-health-checking."""
    of_serve(installed)
    monkeypatch.setattr(extras, "misfits", lambda extra: misfits(extra, [installed.folder]))


class VersionError(Exception):
    """As protobuf's, which is no ImportError."""


@pytest.mark.usefixtures("misfit")
@pytest.mark.parametrize(
    "error", [VersionError("too old"), AttributeError("x"), ImportError("y"), TypeError("z")]
)
def test_an_import_that_fails_for_it_says_so_and_keeps_its_cause(error):
    with pytest.raises(PackageMisfitError) as caught, importing("serve", "keras_selfattn.serving.server"):
        raise error
    assert caught.value.__cause__ is error
    assert str(caught.value) == (
        "keras_selfattn.serving.server cannot be imported, because packages do not fit: "
        "grpcio-health-checking 1.85.1 needs protobuf<8.0.0,>=7.35.1, and protobuf is 6.33.6. Mend it: "
        f"pip install 'protobuf>=7.35.1,<8.0.0' ({type(error).__name__}: {error})"
    )


def test_where_packages_fit_the_error_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(extras, "misfits", lambda extra: [])
    with pytest.raises(AttributeError, match="no such thing"), importing("serve", "x"):
        raise AttributeError("no such thing")


@pytest.fixture
def broken_command(tmp_path, monkeypatch):
    """`serve` raises protobuf's error while it is imported."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "broken.py").write_text(
        "class VersionError(Exception): pass\nraise VersionError('runtime 6.33.6')\n"
    )
    monkeypatch.setattr(keras_selfattn.cli, "__path__", [*keras_selfattn.cli.__path__, str(folder)])
    monkeypatch.setitem(main._MODULES, "serve", "broken")


@pytest.mark.usefixtures("misfit", "broken_command")
def test_a_command_says_it_in_one_line_and_help_still_lists_all():
    done = CliRunner().invoke(main.main, ["serve", "--port=0"])
    assert done.exit_code == 1
    (line,) = done.output.splitlines()
    assert line.startswith("Error: `serve` cannot be imported, because packages do not fit: grpcio-health")
    assert "pip install 'protobuf>=7.35.1,<8.0.0' (VersionError: runtime 6.33.6)" in line
    listed = CliRunner().invoke(main.main, ["--help"])
    assert "Its packages do not fit each other." in listed.output
    assert "train" in listed.output


@pytest.mark.usefixtures("broken_command")
def test_a_command_that_fails_for_another_reason_shows_its_error(monkeypatch):
    monkeypatch.setattr(extras, "misfits", lambda extra: [])
    done = CliRunner().invoke(main.main, ["serve"])
    assert type(done.exception).__name__ == "VersionError"


@pytest.mark.usefixtures("misfit")
def test_an_error_of_a_running_command_is_not_put_down_to_packages(monkeypatch):
    def fail(*_, **__):
        raise TypeError("a fault of ours")

    from keras_selfattn.cli import status

    monkeypatch.setattr(status.command, "callback", fail)
    done = CliRunner().invoke(main.main, ["status", "m"])
    assert isinstance(done.exception, TypeError)


@pytest.mark.usefixtures("misfit")
def test_the_entry_point_says_it_too(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["keras-selfattn", "serve"])
    monkeypatch.setitem(sys.modules, "keras_selfattn.cli.main", Broken("main"))
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert "Error: The command cannot be imported, because packages do not fit: grpcio-h" in str(
        caught.value.code
    )


class Broken(type(sys)):
    """A module that raises as protobuf does whatever is taken from it."""

    def __getattr__(self, name):
        raise VersionError("too old")


def test_the_client_s_command_says_it_too(installed, monkeypatch, capsys):
    installed("keras-selfattn", "1.0", 'made-up>=99; extra == "client"')
    installed("made-up", "7.0")
    monkeypatch.syspath_prepend(installed.folder)
    monkeypatch.setitem(sys.modules, "keras_selfattn.serving.errors", Broken("errors"))
    assert client_command.main(["status", "m"]) == 1
    assert capsys.readouterr().err.startswith(
        "Error: The client cannot be imported, because packages do not fit: keras-selfattn 1.0 needs "
        "made-up>=99, and made-up is 7.0. Mend it: pip install 'made-up>=99' (VersionError: too old)"
    )


def test_what_another_extra_lacks_counts_only_if_its_packages_raised_the_error(installed, monkeypatch):
    of_serve(installed)
    installed("ray", "2.60", "pytest>=999")
    monkeypatch.syspath_prepend(installed.folder)
    error = TypeError("of a module of nobody")
    monkeypatch.setattr(extras, "_modules_of", lambda traceback: {"protobuf"})
    assert misfit_error(error, ["client", "ray"], "x") is None
    monkeypatch.setattr(extras, "_modules_of", lambda traceback: {"ray"})
    assert "ray 2.60 needs pytest>=999" in str(misfit_error(error, ["client", "ray"], "x"))
