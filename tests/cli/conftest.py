"""Models that commands serve, and servers that they ask."""

from serving_fixtures import (  # noqa: F401
    _quick_leaving,
    in_background,
    raw_server,
    stock_server,
    tf1_base,
)
