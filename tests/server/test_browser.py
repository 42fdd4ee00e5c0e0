"""A walk through the page in a real Chromium."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser import Look, Size, barriers, browser, look, looks, needs_browser, resize
from tests.forked import Forked
from tests.server.scene import ASSET, PASSWORD, Scene, free_port, serving
from tests.server.stage_set import built_once
from tests.server.take_pictures import sign_in
from tests.server.test_oidc import settings_file

from gatemark.server.accounts.nouns import PageRun
from gatemark.server.accounts.open_stores import page_runs_of, people_of
from gatemark.server.views.attributions import attribution_list

__all__ = ["browser"]
pytestmark = [needs_browser, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, str]]:
    scene = built_once(tmp_path_factory)
    with serving(scene.app(), scene.settings) as address:
        yield scene, address
    scene.workspace.store.close()


@contextmanager
def watched(browser: Browser, width: int = 1000, scheme: str = "light") -> Iterator[Page]:
    """A page that must ask no other host and leave nothing in the console."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    hosts: set[str | None] = set()
    complaints: list[str] = []
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    refused = "Failed to load resource: the server responded with a status of 40"
    assert hosts <= {"127.0.0.1", "localhost", None}
    assert [text for text in complaints if not text.startswith(refused)] == []


def test_first_start_sign_out_and_sign_in(browser: Browser, tmp_path: Path) -> None:
    server = Forked(("serve", "--port", "0", "--store", tmp_path / "store"), is_heard=True)
    try:
        printed = [server.next_line() for _ in range(2)]
        link = re.search(r"http://127\.0\.0\.1:\d+/join/\S+", printed[1])
        assert link is not None, printed
        with watched(browser) as page:
            page.goto(link[0])
            page.get_by_label("Name").fill("root")
            page.get_by_role("textbox", name="Password at least 12").fill(PASSWORD)
            page.get_by_label("Repeat the password").fill(PASSWORD)
            page.keyboard.press("Enter")
            expect(page.get_by_role("heading", name="Overview")).to_be_visible()
            page.get_by_role("link", name="People", exact=True).click()
            page.get_by_label("Name").fill("ann")
            page.get_by_role("group", name="Roles").last.get_by_label("author").check()
            page.get_by_role("button", name="Add and create a link").click()
            invited = page.get_by_label("Link for ann").input_value()
            page.get_by_role("button", name="Sign out").click()
            page.goto(invited)
            page.get_by_role("textbox", name="Password at least 12").fill(PASSWORD)
            page.get_by_label("Repeat the password").fill(PASSWORD)
            page.keyboard.press("Enter")
            expect(page.get_by_text("There are no assets yet")).to_be_visible()
            page.get_by_role("button", name="Sign out").click()
            page.get_by_label("Name").fill("root")
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("link", name="root")).to_be_visible()
    finally:
        server.send_signal(signal.SIGINT)
        ended = server.finish()
    assert ended.returncode == 0, ended.stderr


@contextmanager
def ending(process: Forked) -> Iterator[Forked]:
    """A process of its own, ended by its number."""
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.finish()


def provider(folder: Path, port: int) -> Forked:
    """The small provider as a process that listens."""
    script = folder / "provide.py"
    script.write_text(
        f"import runpy, sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "runpy.run_module('tests.server.provider', run_name='__main__')\n"
    )
    started = Forked((port,), script=script)
    while started.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return started
    raise AssertionError(started.finish())


def test_people_sign_in_by_a_provider_that_is_another_process(
    browser: Browser, tmp_path: Path
) -> None:
    port = free_port()
    path = settings_file(tmp_path, f"http://127.0.0.1:{port}")
    serve = ("serve", "--port", "0", "--store", tmp_path / "store", "--oidc", path)
    with (
        ending(provider(tmp_path, port)),
        ending(Forked(serve, is_heard=True)) as server,
        watched(browser) as page,
    ):
        server.next_line()
        page.goto(server.next_line().split()[-1])
        page.get_by_label("Name").fill("root")
        page.get_by_role("textbox", name="Password at least 12").fill(PASSWORD)
        page.get_by_label("Repeat the password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("link", name="Sign in with Example").click()
        expect(page.get_by_role("heading", name="Tiny provider")).to_be_visible()
        page.get_by_label("Who are you?").fill("zoe")
        page.get_by_role("button", name="Go on").click()
        expect(page.get_by_role("link", name="zoe@example.org")).to_be_visible()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("link", name="Sign in with Example").click()
        page.get_by_label("Who are you?").fill("mal")
        page.get_by_role("button", name="Go on").click()
        expect(page.get_by_role("alert")).to_contain_text("has not verified your e-mail")
        assert barriers(page) == []


def test_a_run_is_followed_to_its_result_and_the_result_is_verified(
    browser: Browser, world: tuple[Scene, str]
) -> None:
    scene, address = world
    with watched(browser) as page:
        sign_in(page, scene, address, "eve")
        page.goto(f"{address}/runs")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("verdict: pass")).to_be_visible()
        assert page.get_by_role("progressbar").count() >= 6
        page.get_by_role("link", name="Show the result").click()
        expect(page.locator(".banner .verdict")).to_have_text("PASS")
        page.get_by_role("button", name="Verify seal, files and ledger").click()
        expect(page.get_by_text("VERIFIES", exact=True)).to_be_visible()
        sizes = page.evaluate("[...document.images].map(image => image.naturalWidth)")
        assert min(sizes) > 0


def test_nobody_approves_their_own_change_and_a_second_person_does(
    browser: Browser, world: tuple[Scene, str]
) -> None:
    scene, address = world
    there = f"{address}/approvals/greeter/0.9.0"
    with watched(browser) as page:
        sign_in(page, scene, address, "ann")
        page.goto(there)
        expect(page.get_by_role("alert")).to_contain_text("author")
        page.get_by_label("Approve", exact=True).check()
        page.get_by_label("Comment").fill("I like my own work")
        page.get_by_role("button", name="Submit vote").click()
        expect(page.get_by_role("heading", name="Refused")).to_be_visible()
        sign_in(page, scene, address, "bob")
        page.goto(f"{address}/")
        page.get_by_role("link", name="greeter@0.9.0").click()
        page.get_by_label("Approve", exact=True).check()
        page.get_by_role("button", name="Submit vote").click()
        assert page.url == there, "a vote without a comment must not leave the page"
        page.get_by_label("Comment").fill("read every failing case")
        page.get_by_role("button", name="Submit vote").click()
        expect(page.get_by_role("status")).to_have_text("Your vote is in the ledger.")
        sign_in(page, scene, address, "olu")
        page.goto(f"{address}/assets/greeter")
        page.get_by_text("Actions for 0.9.0").click()
        page.get_by_role("button", name="Promote").click()
        expect(page.locator(".banner .verdict")).to_have_text("0.9.0")


def test_the_canary_the_demotion_and_the_check_of_the_ledger_are_shown(
    browser: Browser, world: tuple[Scene, str]
) -> None:
    scene, address = world
    with watched(browser) as page:
        sign_in(page, scene, address, "tom")
        page.goto(f"{address}/assets/{ASSET}")
        expect(page.get_by_role("heading", name="Canary of 1.1.0")).to_be_visible()
        expect(page.get_by_role("img", name="it stands at canary 5")).to_be_visible()
        page.goto(address)
        expect(page.get_by_role("alert")).to_contain_text("router@0.9.0 was demoted")
        page.get_by_role("link", name="See why").click()
        expect(page.get_by_role("alert")).to_contain_text("demoted")
        expect(page.get_by_role("heading", name="golden_accuracy")).to_contain_text("BREACH")
        page.goto(f"{address}/ledger")
        page.get_by_role("button", name="Verify the whole ledger").click()
        expect(page.locator("#check")).to_contain_text("events")
        assert "DOES NOT" not in page.locator("#check").inner_text()


PAGES = [
    ("olu", f"/assets/{ASSET}"),
    ("olu", "/assets/router"),
    ("olu", "/assets/router/drift"),
    ("olu", f"/assets/{ASSET}/history"),
    ("olu", f"/assets/{ASSET}/versions/1.1.0"),
    ("olu", "/assets/nobody"),
    ("eve", f"/assets/{ASSET}"),
    ("bob", "/approvals/greeter/0.9.0"),
    ("ann", "/approvals/greeter/0.9.0"),
    ("zoe", "/"),
    ("bob", "/"),
    ("bob", "/approvals"),
    ("bob", "/results"),
    ("bob", "/compare"),
    ("bob", "/ledger"),
    ("bob", "/tokens"),
    ("bob", "/schedules"),
    ("eve", "/runs"),
    ("ann", "/new-version"),
    ("root", "/people"),
    (None, "/sign-in"),
]


SIZES: list[Size] = [(1000, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def every_look(browser: Browser, world: tuple[Scene, str]) -> dict[Size, list[Look]]:
    """Every page in every size; a page is opened once."""
    scene, address = world
    found: dict[Size, list[Look]] = {size: [] for size in SIZES}
    results = scene.workspace.results.lines(2)
    failure = attribution_list(scene.workspace).items[0].attribution
    pages = [
        *PAGES,
        ("eve", "/attributions"),
        ("eve", f"/attributions/{failure}"),
        ("bob", f"/results/{results[0].id}"),
        ("bob", f"/compare?before={results[0].id}&after={results[1].id}"),
        ("eve", f"/runs/{run_to_its_end(scene)}"),
        (None, f"/join/{people_of(scene.workspace).new_link('tim', scene.clock())}"),
        (None, f"/join/{people_of(scene.workspace).new_link(None, scene.clock())}"),
    ]
    with watched(browser) as page:
        for person, path in pages:
            sign_in(page, scene, address, person)
            page.goto(address + path)
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            for size, one in looks(page, path, SIZES).items():
                found[size].append(one)
        sign_in(page, scene, address, "root")
        for size in SIZES:
            resize(page, size)
            page.goto(f"{address}/people")
            page.get_by_label("Name").fill(f"new-{size[1]}")
            with page.expect_navigation():
                page.get_by_role("button", name="Add and create a link").click()
            found[size].append(look(page, "people with a link"))
            page.goto(f"{address}/ledger")
            page.get_by_role("button", name="Verify the whole ledger").click()
            found[size].append(look(page, "ledger with a check"))
    return found


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_page_fits_and_has_no_serious_barrier(
    every_look: dict[Size, list[Look]], size: Size
) -> None:
    assert len(every_look[size]) == len(PAGES) + 9
    assert [one for one in every_look[size] if one.width > size[0] or one.barriers] == []


def run_to_its_end(scene: Scene) -> str:
    """The newest run that ended, one that a test of this page made or one that is made now."""
    ended = [run for run in page_runs_of(scene.workspace).latest(50) if run.finished_at is not None]
    if not ended:
        now = scene.clock()
        made = PageRun("cd" * 8, "pack.yaml", "eve", "running", None, None, "", now, now, None)
        page_runs_of(scene.workspace).add(made)
        page_runs_of(scene.workspace).change(
            made.id, "failed", now, detail="the target did not answer"
        )
        return made.id
    return ended[0].id
