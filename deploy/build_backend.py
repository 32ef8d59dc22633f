"""setuptools' build backend; the bytes of a wheel depend on the sources alone, not on place or time."""

import os

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  the hooks of PEP 517 and 660

# The time of every file in a wheel, unless the environment has one: 2020-01-01.
os.environ.setdefault("SOURCE_DATE_EPOCH", "1577836800")
# And their modes, whatever those of the checkout.
os.umask(0o022)

__all__ = build_meta.__all__
