"""Kinds of folders are told apart by what they hold."""

from keras_selfattn.files.folder_kinds import holds_pretrained


def test_a_run_that_lost_its_model_is_no_pretrained_folder(tmp_path):
    for name in ("config.json", "metrics.json"):
        (tmp_path / name).write_text("{}")
    assert not holds_pretrained(tmp_path)
