from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser import browser, needs_browser

__all__ = ["browser"]
pytestmark = needs_browser


@pytest.fixture(scope="module")
def report(finished_demo: Path) -> Path:
    return finished_demo / "gatemark-demo" / "candidate.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_the_page_stands_alone_and_fits(
    browser: Browser, report: Path, scheme: str, width: int
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
    requested: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(report.as_uri())
    assert page.locator("h1").inner_text() == "Hotel help desk, prompt 7 (candidate)"
    assert "FAIL" in page.locator("body").inner_text().split("Hotel help desk")[0]
    outside = [url for url in requested if not url.startswith(("file:", "data:"))]
    assert (outside, complaints) == ([], [])
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in background[4:-1].split(",")) / 3
    assert (brightness > 128) == (scheme == "light")
    page.close()


def test_the_pictures_of_the_page_are_really_drawn(browser: Browser, report: Path) -> None:
    page = browser.new_page()
    page.goto(report.as_uri())
    sizes = page.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert sizes
    assert min(sizes) > 100
    page.close()
