"""``gatemark view``: the real command, its link, and its pages in a real Chromium."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from tests.web.test_browser import CHROMIUM, browser, watched

import gatemark.demo
from gatemark.cli.main import main
from gatemark.evidence.source import ReadingChoices
from gatemark.samples.compare import CompareRequest, compare_files
from gatemark.samples.views import render_json
from gatemark.web.headers import POLICY
from gatemark.workspace import Workspace

__all__ = ["browser"]
PAIRS = Path(gatemark.demo.__file__).with_name("pairs_candidate.jsonl")
FERRY = Path(__file__).parents[2] / "examples" / "ferry"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


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
    command = [sys.executable, "-m", "gatemark", "view", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        link = re.search(r"http://127\.0\.0\.1:\d+/open/\S+$", line.strip())
        assert link is not None, line + process.stderr.read()
        yield link[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


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


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_a_result_a_comparison_and_a_log_in_a_browser(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    store = str(tmp_path / "store")
    made = sealed(tmp_path)
    base, cand = str(FERRY / "base.json"), str(FERRY / "cand.json")
    compared = compare_files(CompareRequest(base=base, cand=cand), ReadingChoices())
    (tmp_path / "compare.json").write_bytes(render_json(compared))
    subjects = {
        made["id"][7:19]: made["title"],
        str(tmp_path / "result.json"): made["title"],
        str(tmp_path / "compare.json"): "cand.json",
        cand: "cand.json",
    }
    for subject, heading in subjects.items():
        with viewing(subject, "--store", store) as link, watched(browser, width, scheme) as page:
            page.goto(link)
            expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if subject == cand:
                page.get_by_label("Find an id").fill("ferry-02")
                page.keyboard.press("Enter")
                expect(page.locator(".samples li")).to_have_count(1)
                page.locator(".samples summary").click()
                expect(page.get_by_role("heading", name="Output")).to_be_visible()
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            page.screenshot(path=tmp_path / f"{Path(subject).name}-{width}.png", full_page=True)
