"""Calls of object stores: their errors show no secret."""

import re

import pytest

from keras_selfattn.files.store_calls import without_secrets

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sftp://ann:pa@ss/word@host/m", "sftp://host/m"),
        ("https://TOKEN@github.com/m", "https://github.com/m"),
        ("abfs://box@account.dfs.core.windows.net/m", "abfs://box@account.dfs.core.windows.net/m"),
        ("no AccountKey=abcd==; or SharedAccessSignature=a&sig=AAA", None),
        ("Authorization: Bearer abc.def", "Authorization: Bearer …"),
        ("403, url='https://a.b/m?sig=abc&sp=r'", "403, url='https://a.b/m'"),
        ("s3://bucket/m", "s3://bucket/m"),
    ],
)
def test_secrets_are_not_shown(text, shown):
    words = without_secrets(text)
    assert words == shown or shown is None
    assert not {"abcd", "AAA"} & {*re.split(r"\W+", words)}
