"""The attribution page in a real browser: it stands alone, fits, and runs nothing of a model's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser import barriers, browser, needs_browser
from tests.forked import run_forked

__all__ = ["browser"]
pytestmark = needs_browser
HOSTILE = "<script>document.title='owned'</script><img src=https://evil.example/x.png>"


@pytest.fixture(scope="module")
def why(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("why")
    wide = [
        {
            "id": f"look-up-{number}-with-a-name-that-is-rather-long",
            "kind": "retrieval",
            "name": HOSTILE,
            "sources": ["input"],
            "output": HOSTILE,
            "retrieval": {"name": f"facts-{number}", "version": "[x](javascript:alert(1))"},
        }
        for number in range(4)
    ]
    last = {
        "id": "write",
        "kind": "model",
        "name": "writer",
        "sources": [step["id"] for step in wide],
        "output": "x",
        "model": {"name": "writer", "version": "large-1" * 20},
        "checks": [{"pack": HOSTILE, "rule": "tone", "verdict": "fail"}],
    }
    decision = {"id": HOSTILE, "input": "q", "output": "x", "steps": [*wide, last]}
    decision["judgement"] = {"verdict": "wrong", "reviewer": "r", "expected": "y"}
    (folder / "decision.json").write_text(json.dumps(decision))
    page = folder / "why.html"
    assert run_forked("attribute", folder / "decision.json", "-o", page).returncode == 0
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_the_page_stands_alone_fits_and_has_no_serious_barrier(
    browser: Browser, why: Path, scheme: str, width: int
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(why.as_uri())
    assert page.title() != "owned"
    assert [url for url in requested if not url.startswith("file:")] == []
    assert page.locator("svg.plan rect").count() == 5
    assert page.locator("svg.plan .cause").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator('a[href^="javascript:"]').count() == 0
    assert barriers(page) == []
    page.close()
