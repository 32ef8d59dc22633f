"""Logs for machines: one JSON object on each line."""

import json
import logging
import time


class JsonFormatter(logging.Formatter):
    """Format a record as {"time": …, "level": …, "logger": …, "message": …}, with "error" for a traceback.

    Times are UTC, as in RFC 3339.

    Args:
        **fields: more fields for every line.

    Example:
        handler.setFormatter(JsonFormatter(worker=2))
    """

    def __init__(self, **fields: object):
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            **self._fields,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)
