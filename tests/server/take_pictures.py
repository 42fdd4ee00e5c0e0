"""The pictures of the documentation: ``python -m tests.server.take_pictures FOLDER``."""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from tests.server.scene import ASSET, Scene, serving
from tests.server.stage_set import build
from tests.server.test_oidc import settings_file

from gatemark.server.accounts.open_stores import people_of

CHROMIUM = runpy.run_path(str(Path(__file__).parent.parent / "install_browser.py"))["find_browser"]
FIRST = (
    ("sign-in", None, "/sign-in"),
    ("overview", "bob", "/"),
    ("asset", "olu", f"/assets/{ASSET}"),
    ("drift", "olu", "/assets/router"),
    ("drift-page", "olu", "/assets/router/drift"),
    ("history", "olu", f"/assets/{ASSET}/history"),
    ("why", "olu", f"/assets/{ASSET}/versions/1.1.0"),
    ("new-version", "ann", "/new-version"),
    ("error", "zoe", "/approvals"),
    ("approval", "bob", "/approvals/greeter/0.9.0"),
    ("approvals", "bob", "/approvals"),
    ("results", "bob", "/results"),
    ("ledger", "bob", "/ledger"),
    ("schedules", "bob", "/schedules"),
    ("people", "root", "/people"),
    ("tokens", "bob", "/tokens"),
    ("reviews", "bob", "/reviews"),
    ("new-review", "eve", "/new-review"),
    ("review", "eve", "/reviews/parcel-replies"),
    ("review-vote", "bob", "/reviews/parcel-replies?begin=yes"),
    ("review-closed", "bob", "/reviews/reply-tone"),
    ("labels", "cat", "/labels"),
    ("new-labels", "eve", "/new-labels"),
    ("label", "cat", "/labels/mood"),
    ("label-items", "eve", "/labels/tone/items"),
)
WHOLE = ("asset", "drift", "approval", "drift-page", "history", "why", "review-closed")
PHONE = (("phone", "bob", "/"), ("phone-review", "ann", "/reviews/parcel-replies?begin=yes"))
HEIGHT = 820


def sign_in(page: Page, scene: Scene, address: str, name: str | None) -> None:
    page.context.clear_cookies()
    if name is None:
        return
    if name not in {person.name for person in people_of(scene.workspace).all()}:
        scene.account(name)
    secret = people_of(scene.workspace).new_session(name, "password", scene.clock())
    page.context.add_cookies([{"name": "gatemark", "value": secret, "url": address}])


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        scene = build(Path(place))
        browser = playwright.chromium.launch(executable_path=CHROMIUM(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": HEIGHT})
        phone = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        with serving(scene.app(), scene.settings) as address:
            for name, person, path in FIRST:
                sign_in(page, scene, address, person)
                page.goto(address + path)
                page.screenshot(path=folder / f"web-{name}.png", full_page=name in WHOLE)
            page.goto(f"{address}/attributions")
            page.screenshot(path=folder / "web-failures.png")
            page.get_by_role("link", name="parcel-17").click()
            page.wait_for_load_state()
            page.screenshot(path=folder / "web-failure.png", full_page=True)
            sign_in(page, scene, address, None)
            page.goto(f"{address}/join/{people_of(scene.workspace).new_link('ina', scene.clock())}")
            page.screenshot(path=folder / "web-join.png")
            sign_in(page, scene, address, "eve")
            page.goto(f"{address}/runs")
            page.get_by_label("Item limit").fill("40")
            page.get_by_role("button", name="Run").click()
            page.get_by_role("link", name="Show the result").wait_for()
            page.goto(f"{address}/runs")
            page.get_by_role("button", name="Run").click()
            page.get_by_role("link", name="Show the result").wait_for()
            page.screenshot(path=folder / "web-run.png")
            page.goto(f"{address}/runs")
            page.screenshot(path=folder / "web-runs.png")
            page.go_back()
            page.get_by_role("link", name="Show the result").click()
            page.wait_for_load_state()
            page.screenshot(path=folder / "web-result.png")
            page.get_by_role("button", name="Compare", exact=True).click()
            page.wait_for_load_state()
            page.screenshot(path=folder / "web-compare.png")
            for name, person, path in PHONE:
                sign_in(phone, scene, address, person)
                phone.goto(address + path)
                phone.screenshot(path=folder / f"web-{name}.png")
        oidc = settings_file(Path(place), "https://login.example")
        provided = Scene(f"{place}/provided", oidc=oidc)
        with serving(provided.app(), provided.settings) as address:
            sign_in(page, provided, address, None)
            page.goto(f"{address}/sign-in")
            page.screenshot(path=folder / "web-sign-in-provider.png")
        provided.workspace.store.close()
        browser.close()
        scene.workspace.store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
