"""A real Chromium for tests, and what it finds that keeps somebody from using a page."""

from __future__ import annotations

import runpy
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = runpy.run_path(str(Path(__file__).with_name("install_browser.py")))["find_browser"]()
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
RULES = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
# What is expected comes, or never; a busy machine takes its time.
expect.set_options(timeout=120_000)
Scheme = Literal["light", "dark"]
Size = tuple[int, Scheme]
"""A width, and the colours that the reader prefers."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the tests of a module; Playwright keeps the event loop of its thread to itself."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


def violations(page: Page) -> list[dict[str, Any]]:
    """Every rule of accessibility that the page breaks."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(RULES)
    found: list[dict[str, Any]] = page.evaluate(
        "axe.run({resultTypes: ['violations']}).then(done => done.violations)"
    )
    return found


def barriers(page: Page) -> list[tuple[str, list[str]]]:
    """What keeps somebody from using the page."""
    return [
        (one["id"], [node["html"][:120] for node in one["nodes"]])
        for one in violations(page)
        if one["impact"] in ("serious", "critical")
    ]


class Look(NamedTuple):
    """What a page is like in one size."""

    place: str
    width: int
    """The width that its content takes."""
    barriers: list[tuple[str, list[str]]]


def resize(page: Page, size: Size) -> None:
    """Give a page that is open another width and other colours."""
    page.set_viewport_size({"width": size[0], "height": 900})
    page.emulate_media(color_scheme=size[1])


def look(page: Page, place: str) -> Look:
    """Look at the page as it is, once it is there."""
    page.wait_for_load_state("load")
    return Look(place, page.evaluate("document.documentElement.scrollWidth"), barriers(page))


def looks(page: Page, place: str, sizes: Sequence[Size]) -> dict[Size, Look]:
    """Look at an open page in each size: most of the work is to open it and to load the rules."""
    found = {}
    for size in sizes:
        resize(page, size)
        found[size] = look(page, place)
    return found
