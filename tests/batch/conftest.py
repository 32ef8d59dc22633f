"""A small model of texts that fails for some, and the command that answers with it."""

import pytest
from batch_models import save
from click.testing import CliRunner

from keras_selfattn.cli.main import main


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A folder of versions. Texts are short or long; the score is their length; FAIL fails."""
    return save(tmp_path_factory.mktemp("models") / "lengths" / "1", 3)


@pytest.fixture
def predict(model, tmp_path):
    """Runs the command in this process; gives its result."""

    def run(source, output, *options, of=model):
        arguments = ["predict", str(of), "--file", str(source), "--output", str(output), *map(str, options)]
        return CliRunner().invoke(main, arguments)

    return run
