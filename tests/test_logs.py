from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from gatemark.logs import (
    LogFormat,
    configure_logs,
    request_id,
    server_has_handler,
    stop_logs,
)

logger = logging.getLogger("gatemark.test_logs")


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    server = logging.getLogger("uvicorn.error")
    level = server.level
    # A server of another test in this process may have left it at errors only.
    server.setLevel(logging.NOTSET)
    yield
    server.setLevel(level)
    stop_logs()


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_json_lines_hold_the_message_and_the_fields() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    odd: dict[str, Any] = {
        "n": 3,
        "ratio": float("nan"),
        "at": None,
        "name_of": 'a "b"\nc',
        "ok": True,
    }
    logger.info("done", extra=odd)
    (line,) = lines(stream)
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "info",
        "logger": "gatemark.test_logs",
        "message": "done",
        **odd,
        "ratio": "nan",
    }


def test_a_field_cannot_take_the_place_of_the_level() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    logger.info("done", extra={"level": "none", "logger": "other"})
    found = json.loads(lines(stream)[0])
    assert (found["level"], found["logger"]) == ("info", "gatemark.test_logs")


def test_text_is_one_line_whatever_the_fields_hold() -> None:
    stream = io.StringIO()
    configure_logs("info", "text", stream)
    logger.info("done", extra={"asset": "triage", "n": 3, "said": "a b\nINFO fake=1"})
    (line,) = lines(stream)
    assert line.endswith('INFO gatemark.test_logs: done asset=triage n=3 said="a b\\nINFO fake=1"')


def test_the_level_decides_and_a_second_configuration_takes_the_place_of_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logs("debug", "json", first)
    logger.debug("one")
    configure_logs("warning", "text", second)
    logger.info("two")
    logger.warning("three")
    assert [json.loads(line)["message"] for line in lines(first)] == ["one"]
    assert [line.rpartition(": ")[2] for line in lines(second)] == ["three"]


def test_long_texts_are_cut_short() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    logger.info("done", extra={"said": "x" * 5000})
    assert len(json.loads(lines(stream)[0])["said"]) == 200


def test_an_exception_is_named_and_located_but_not_quoted() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    try:
        int("hunter2")
    except ValueError:
        logger.exception("failed")
    found = json.loads(lines(stream)[0])
    assert found["exception"] == "ValueError"
    assert "test_logs.py:" in found["at"]
    assert "hunter2" not in stream.getvalue()


def test_the_request_id_is_in_every_record_of_the_request() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    token = request_id.set("r-1")
    logger.info("inside")
    request_id.reset(token)
    logger.info("outside")
    inside, outside = (json.loads(line) for line in lines(stream))
    assert inside["request_id"] == "r-1"
    assert "request_id" not in outside


def test_only_json_takes_over_the_records_of_the_server() -> None:
    stream = io.StringIO()
    configure_logs("info", "text", stream)
    assert not server_has_handler()
    configure_logs("info", "json", stream)
    assert server_has_handler()
    logging.getLogger("uvicorn.error").warning("slow", extra={"color_message": "slow"})
    logging.getLogger("httpx2").warning("GET https://x/?key=hunter2")
    (line,) = lines(stream)
    assert json.loads(line)["message"] == "slow"
    assert "color_message" not in line


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_record_drives_a_terminal(form: LogFormat) -> None:
    stream = io.StringIO()
    configure_logs("info", form, stream)
    logging.getLogger("gatemark.test").info("a\x9b2J\u202eb", extra={"file": "c\x1b[2J\u2066d"})
    assert not set(stream.getvalue()) & set("\x1b\x9b\u202e\u2066")
