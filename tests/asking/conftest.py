"""Servers of stock stubs, which the commands ask."""

from serving_fixtures import (  # noqa: F401
    _quick_leaving,
    raw_server,
    stock_server,
)
