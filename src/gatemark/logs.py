"""Logs on standard error: one line per record, as text or JSON, with fields instead of prose.

Modules log with ``logging.getLogger(__name__)`` and put names, counts, ids and outcomes into
``extra=``. Payloads, inputs, answers, addresses with secrets and credentials are never logged.
"""

from __future__ import annotations

import json
import logging
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime
from math import isfinite
from typing import Final, Literal, TextIO, get_args

from gatemark.core.text import visible_json, visible_line

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
LEVELS: Final[tuple[str, ...]] = get_args(LogLevel)
FORMATS: Final[tuple[str, ...]] = get_args(LogFormat)
LONGEST: Final = 200
"""Characters of a field. Names and ids are shorter; a longer text is not a name."""

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The request that is being answered, in every record that is logged meanwhile."""

_OWN: Final = "gatemark"
_SERVER: Final = "uvicorn"
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    *("message", "asctime", "taskName"),
    # The server's message once more, with colours.
    "color_message",
}

Field = str | int | float | bool | None


def configure_logs(level: LogLevel, form: LogFormat, stream: TextIO) -> None:
    """Send the records of Gatemark to ``stream``, in place of an earlier configuration.

    Other libraries stay silent: their debug records hold addresses and headers. The web server's
    own errors join in as JSON, so that every line can be parsed.
    """
    stop_logs()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.getLogger(_OWN).setLevel(level.upper())
    logging.getLogger(_OWN).addHandler(handler)
    if form == "json":
        logging.getLogger(_SERVER).addHandler(handler)


def stop_logs() -> None:
    """Undo ``configure_logs``: a handler must not outlive the stream that it writes to."""
    for name in (_OWN, _SERVER):
        logger = logging.getLogger(name)
        logger.handlers = [one for one in logger.handlers if not _is_ours(one)]
    logging.getLogger(_OWN).setLevel(logging.NOTSET)


def server_has_handler() -> bool:
    """Return whether the web server's records already have a handler."""
    return any(_is_ours(one) for one in logging.getLogger(_SERVER).handlers)


def _is_ours(handler: logging.Handler) -> bool:
    return isinstance(handler.formatter, JsonFormatter | TextFormatter)


def collect_fields(record: logging.LogRecord) -> dict[str, Field]:
    """Return the fields of a record: ``extra=``, the request id, and the place of an exception."""
    found = {
        name: _shorten_value(value)
        for name, value in vars(record).items()
        # Libraries that hook into logging add private fields of their own.
        if name not in _STANDARD and not name.startswith("_")
    }
    if (current := request_id.get()) is not None:
        found["request_id"] = current
    if record.exc_info and record.exc_info[0] is not None:
        kind, _, frames = record.exc_info
        # The message of an exception may quote what somebody sent; the place is enough to find it.
        found["exception"] = kind.__name__
        calls = [f"{one.filename}:{one.lineno}" for one in traceback.extract_tb(frames)]
        found["at"] = calls[-1] if calls else None
    return found


def _shorten_value(value: object) -> Field:
    if value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _format_moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        head: dict[str, Field] = {
            "time": _format_moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        more = {name: value for name, value in collect_fields(record).items() if name not in head}
        return visible_json(json.dumps(head | more, ensure_ascii=False))


class TextFormatter(logging.Formatter):
    """One line for people: time, level, logger, message, then ``name=value`` pairs."""

    def format(self, record: logging.LogRecord) -> str:
        said = visible_line(record.getMessage())
        head = f"{_format_moment(record)} {record.levelname} {record.name}: {said}"
        pairs = [f"{name}={_quote(value)}" for name, value in collect_fields(record).items()]
        return " ".join((head, *pairs))


def _quote(value: Field) -> str:
    """Return a value on one line, quoted unless it is one word."""
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "='):
        return value
    return visible_json(json.dumps(value, ensure_ascii=False))
