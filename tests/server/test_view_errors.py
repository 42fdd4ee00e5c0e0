"""``gatemark view`` when a page breaks: the browser is told, and the terminal gets one line."""

from __future__ import annotations

import http.client
import threading
from typing import Any, cast

import pytest

from gatemark.server.view_pages import ViewPages
from gatemark.server.view_server import ViewServer


class Broken:
    """Pages that cannot be made."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def page(self, _fields: dict[str, str]) -> bytes:
        raise self.error


@pytest.mark.parametrize(
    "error",
    [LookupError("quotes \x1b[2J what somebody sent"), PermissionError(13, "Permission denied")],
    ids=["a bug", "a file that cannot be read"],
)
def test_a_page_that_breaks_is_an_internal_error(
    error: Exception, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with ViewServer(cast(ViewPages, Broken(error)), 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        opened = _get(server, server.link.removeprefix(server.address), {})
        cookie = str(opened.getheader("Set-Cookie")).partition(";")[0]
        broken = _get(server, "/", {"Cookie": cookie})
        server.shutdown()
        thread.join()
    assert broken.status == 500
    captured = capfd.readouterr()
    assert "Traceback" not in captured.err
    assert "\x1b" not in captured.err
    assert [record.getMessage() for record in caplog.records] == ["page failed"]


def _get(server: ViewServer, path: str, headers: dict[str, str]) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer
