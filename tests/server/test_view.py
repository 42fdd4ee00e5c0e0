"""``gatemark view``: the real command, its link, and its pages in a real Chromium."""

from __future__ import annotations

import http.client
import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, expect
from tests.browser import Size, browser, needs_browser, resize, violations
from tests.forked import Forked
from tests.server.test_browser import watched

import gatemark.release.demo
from gatemark.cli.main import main
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.samples.compare import CompareRequest, compare_files
from gatemark.samples.views import render_comparison_json
from gatemark.server.headers import POLICY
from gatemark.workspace import Workspace

__all__ = ["browser"]
PAIRS = Path(gatemark.release.demo.__file__).with_name("pairs_candidate.jsonl")
FERRY = Path(__file__).parents[2] / "examples" / "ferry"


def sealed(folder: Path) -> dict[str, str]:
    """A result that fails, sealed in ``folder / "store"`` and as ``result.json``."""
    store = ("--store", str(folder / "store"))
    summary = str(folder / "summary.json")
    scored = ["score", "agreement", "--pairs", str(PAIRS), "--seal", *store, "-o", summary]
    assert main(scored) == 1
    (line,) = Workspace(store=store[1]).existing_results().lines(1)
    assert main(["report", line.id, *store, "-o", str(folder / "result.json")]) == 0
    document: dict[str, str] = json.loads((folder / "result.json").read_text())
    return document


@contextmanager
def viewing(*arguments: str) -> Iterator[str]:
    """The link of a running ``gatemark view``, which must end well by Ctrl-C."""
    process = Forked(("view", *arguments), is_heard=True)
    try:
        line = process.next_line()
        link = re.search(r"http://127\.0\.0\.1:\d+/open/\S+$", line.strip())
        assert link is not None, line
        yield link[0]
        process.send_signal(signal.SIGINT)
        process.wait()
    finally:
        process.kill()
        done = process.finish()
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def asked(
    link: str, path: str | None = None, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    parts = urlsplit(link)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=60)
    try:
        connection.request(method, path or parts.path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, text
    finally:
        connection.close()


def test_the_link_works_once_and_nobody_else_sees_anything() -> None:
    with viewing(str(FERRY / "base.json")) as link:
        assert asked(link, "/")[0] == 403
        assert asked(link, "/open/wrong")[0] == 403
        assert asked(link, Host="evil.example")[0] == 421
        status, headers, _ = asked(link)
        assert (status, headers["location"]) == (303, "/")
        assert "HttpOnly" in headers["set-cookie"]
        cookie = headers["set-cookie"].partition(";")[0]
        status, _, text = asked(link)
        assert status == 403
        assert "This link was used" in text
        name = cookie.partition("=")[0]
        assert asked(link, "/", Cookie=f"{name}=guess")[0] == 403
        status, headers, text = asked(link, "/", Cookie=cookie)
        assert status == 200
        assert "ferry-01" in text
        assert headers["content-security-policy"] == POLICY
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert asked(link, Cookie=cookie)[0] == 303
        assert asked(link, "/nowhere", Cookie=cookie)[0] == 404
        assert (
            asked(link, "/?" + "&".join("ab"[i % 2] + "=1" for i in range(9)), Cookie=cookie)[0]
            == 400
        )
        assert asked(link, "/", "POST", Cookie=cookie)[0] == 501
        assert asked(link, "/", "HEAD", Cookie=cookie)[::2] == (200, "")
        status, _, text = asked(link, "/?q=ferry-01&page=99", Cookie=cookie)
        assert "1 to 1 of 1 sample whose id contains" in text


def test_hostile_text_in_a_log_stays_text(tmp_path: Path) -> None:
    log = tmp_path / "hostile.jsonl"
    script = "<script>alert(1)</script>"
    sample = {"schema": "gatemark.sample/1", "id": script, "scores": {script: 1}, "output": script}
    log.write_text(json.dumps(sample) + "\n")
    with viewing(str(log)) as link:
        cookie = asked(link)[1]["set-cookie"].partition(";")[0]
        text = asked(link, "/", Cookie=cookie)[2]
        assert "alert(1)" in text
        assert "<script" not in text


def test_what_cannot_be_shown_is_refused_before_a_server_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "changed.json"
    document = sealed(tmp_path)
    changed.write_text(json.dumps({**document, "title": "another"}))
    cases = {
        str(changed): (4, "does not verify"),
        str(tmp_path / "summary.json"): (2, "a report without a seal; 'gatemark view ID'"),
        str(tmp_path / "missing.json"): (2, "no such file; a result is named by its id"),
        "3f2a9c01": (2, "no store"),
        str(tmp_path): (2, "without a log of a known tool"),
    }
    for subject, (code, message) in cases.items():
        assert main(["view", subject, "--store", str(tmp_path / "none")]) == code
        assert message in capsys.readouterr().err
    own = tmp_path / "own.jsonl"
    own.write_text('{"schema": "gatemark.sample/1", "id": "a", "scores": {}}\n')
    assert main(["view", str(own), "--arm", "x"]) == 2
    assert "has no arms; leave out --arm" in capsys.readouterr().err


SIZES: list[Size] = [(390, "dark"), (1280, "light")]
Found = tuple[str, int, list[dict[str, Any]]]
"""A subject, the width of its page, and what is wrong with it."""


@pytest.fixture(scope="module")
def every_look(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> dict[Size, list[Found]]:
    """Every page in every size; a page is opened once."""
    tmp_path = tmp_path_factory.mktemp("view")
    store = str(tmp_path / "store")
    made = sealed(tmp_path)
    base, cand = str(FERRY / "base.json"), str(FERRY / "cand.json")
    compared = compare_files(CompareRequest(base=base, cand=cand), ReadingChoices())
    (tmp_path / "compare.json").write_bytes(render_comparison_json(compared))
    subjects = {
        made["id"][7:19]: made["title"],
        str(tmp_path / "result.json"): made["title"],
        str(tmp_path / "compare.json"): "cand.json",
        cand: "cand.json",
    }
    found: dict[Size, list[Found]] = {size: [] for size in SIZES}
    for subject, heading in subjects.items():
        with viewing(subject, "--store", store) as link, watched(browser) as page:
            page.goto(link)
            for size in SIZES:
                resize(page, size)
                if subject == cand:
                    page.goto(urljoin(link, "/"))
                expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
                width = page.evaluate("document.documentElement.scrollWidth")
                if subject == cand:
                    page.get_by_label("Find an id").fill("ferry-02")
                    page.keyboard.press("Enter")
                    expect(page.locator(".samples li")).to_have_count(1)
                    page.locator(".samples summary").click()
                    expect(page.get_by_role("heading", name="Output")).to_be_visible()
                found[size].append((subject, width, violations(page)))
    return found


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_result_a_comparison_and_a_log_in_a_browser(
    every_look: dict[Size, list[Found]], size: Size
) -> None:
    assert len(every_look[size]) == 4
    assert [one for one in every_look[size] if one[1] > size[0] or one[2]] == []
