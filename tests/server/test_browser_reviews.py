"""A walk through blind review and labels in a real Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import Client
from playwright.sync_api import Browser, Page, expect
from tests.browser import Look, Size, browser, looks
from tests.server.review_set import HOSTILE, write_samples
from tests.server.scene import ASSET, Scene, serving
from tests.server.stage_set import built_once
from tests.server.take_pictures import sign_in
from tests.server.test_browser import pytestmark, watched
from tests.server.test_review_queue import create as create_queue

from gatemark.release.review.open_stores import reviews_of

__all__ = ["browser", "pytestmark"]
COUNT = 20


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, str]]:
    scene = built_once(tmp_path_factory)
    with serving(scene.app(), scene.settings) as address:
        with Client(base_url=address, timeout=30, verify=False) as client:
            create_queue(scene, client)
        yield scene, address
    scene.workspace.store.close()


def text_of(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def choose(page: Page, *, by_key: bool) -> None:
    """Vote for the warm answer, wherever it is."""
    a = page.get_by_role("region", name="Answer A").inner_text()
    letter, key = ("A", "1") if a.startswith("I am sorry") else ("B", "2")
    if by_key:
        page.keyboard.press(key)
    else:
        page.get_by_role("button", name=f"{letter} is better").click()


def test_two_people_review_blind_to_a_verdict(
    browser: Browser, world: tuple[Scene, str], tmp_path: Path
) -> None:
    scene, address = world
    warm = "I am sorry about {what}. Case {case} is open."
    arms = {
        "candidate": write_samples(tmp_path, "c", warm, COUNT),
        "baseline": write_samples(tmp_path, "b", "Wait two days ({what}, {case}).", COUNT),
    }
    with watched(browser) as page:
        sign_in(page, scene, address, "eve")
        page.goto(f"{address}/reviews")
        page.get_by_role("link", name="New review").click()
        page.get_by_label("Name", exact=True).fill("walk")
        for label, path in arms.items():
            page.get_by_label(f"File for {label}").set_input_files(path)
            expect(page.locator(f"textarea[name='samples:{label}']")).to_have_value(text_of(path))
        page.get_by_label("Candidate is").fill(f"{ASSET}@1.2.0")
        page.get_by_label("Votes per pair").fill("2")
        page.locator("input[name=reviewers]").fill("ann, bob")
        page.get_by_role("button", name="Create the review").click()
        expect(page.get_by_role("status")).to_contain_text("sealed")
        expect(page.get_by_text("You cannot vote: others were named")).to_be_visible()
        shapes = set()
        for person, by_key in (("ann", True), ("bob", False)):
            sign_in(page, scene, address, person)
            page.goto(f"{address}/reviews")
            page.get_by_role("link", name="walk", exact=True).first.click()
            for number in range(COUNT):
                expect(page.get_by_text(f"{number} of {COUNT} answered")).to_be_visible()
                shapes.add(shape(page))
                choose(page, by_key=by_key)
            expect(page.get_by_role("status")).to_contain_text("You are done")
        assert len(shapes) == 1, "nothing but the texts may differ between two pairs"
        sign_in(page, scene, address, "eve")
        page.goto(f"{address}/reviews/walk")
        page.get_by_role("button", name="Close and unblind").click()
        expect(page.locator(".banner .verdict")).to_have_text("PASS")
        expect(page.get_by_text(f"about {ASSET}/1.2.0")).to_be_visible()
        for word in ("Position", "Reviewers", "Agreement", "Unblinding"):
            expect(page.get_by_role("heading", name=word)).to_be_visible()
        expect(page.get_by_text("review unblinded by eve")).to_be_visible()
        page.locator("dd a code").first.click()
        expect(page.locator(".banner .verdict")).to_have_text("PASS")


def shape(page: Page) -> str:
    """The markup of a pair without its texts, its token and its number."""
    html = page.evaluate(
        """() => {
          const copy = document.querySelector('main').cloneNode(true);
          copy.querySelectorAll('pre').forEach(one => { one.textContent = ''; });
          copy.querySelectorAll('.way, .more').forEach(one => one.remove());
          return copy.innerHTML;
        }"""
    )
    return re.sub(r"[0-9a-f]{32,64}", "…", html)


def test_a_comment_is_kept_a_skip_needs_one_and_a_vote_can_be_changed(
    browser: Browser, world: tuple[Scene, str]
) -> None:
    scene, address = world
    there = f"{address}/reviews/parcel-replies?begin=yes"
    with watched(browser) as page:
        sign_in(page, scene, address, "olu")
        page.goto(there)
        page.keyboard.press("s")
        expect(page.get_by_text("say why, then skip")).to_be_visible()
        expect(page.get_by_label("Comment")).to_be_focused()
        page.keyboard.type("1 is not a vote here")
        expect(page.get_by_text("draft kept")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Comment")).to_have_value("1 is not a vote here")
        page.keyboard.press("s")
        expect(page.get_by_text("1 of 30 answered")).to_be_visible()
        page.keyboard.press("3")
        expect(page.get_by_text("2 of 30 answered")).to_be_visible()
        page.keyboard.press("u")
        expect(page.get_by_text("Your vote: Both good")).to_be_visible()
        page.get_by_label("Comment").fill("the same text")
        expect(page.get_by_text("comment saved")).to_be_visible()
        page.get_by_role("button", name="Both bad").click()
        expect(page.get_by_text("2 of 30 answered")).to_be_visible()
    cast = [
        vote
        for vote in reviews_of(scene.workspace).votes("parcel-replies")
        if vote.reviewer == "olu"
    ]
    assert [(vote.answered, vote.version, vote.reason) for vote in cast] == [
        ("skip", 1, "1 is not a vote here"),
        ("both_bad", 3, "the same text"),
    ]


def test_a_review_works_without_scripts(browser: Browser, world: tuple[Scene, str]) -> None:
    scene, address = world
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, scene, address, "cat")
    page.goto(f"{address}/reviews/parcel-replies?begin=yes")
    page.get_by_role("button", name="Skip").click()
    expect(page.get_by_role("alert")).to_contain_text("a skipped pair needs a reason")
    page.get_by_label("Comment").fill("both are in a language I do not read")
    page.get_by_role("button", name="Skip").click()
    expect(page.get_by_text("1 of 30 answered")).to_be_visible()
    page.get_by_role("button", name="A is better").click()
    expect(page.get_by_text("2 of 30 answered")).to_be_visible()
    context.close()


def test_answers_of_a_model_stay_text(
    browser: Browser, world: tuple[Scene, str], tmp_path: Path
) -> None:
    scene, address = world
    with watched(browser) as page:
        sign_in(page, scene, address, "eve")
        page.goto(f"{address}/new-review")
        page.get_by_label("Name", exact=True).fill("hostile")
        page.get_by_label("Question to reviewers").fill(HOSTILE.splitlines()[0])
        for label in ("candidate", "baseline"):
            samples = text_of(write_samples(tmp_path, label, HOSTILE, 2))
            page.locator(f"textarea[name='samples:{label}']").fill(samples)
        page.get_by_role("button", name="Create the review").click()
        page.get_by_role("link", name="Begin").click()
        expect(page.get_by_role("region", name="Answer A")).to_have_text(HOSTILE)
        page.get_by_label("Comment").fill(HOSTILE.splitlines()[0])
        page.get_by_role("button", name="B is better").click()
        page.get_by_role("link", name="Previous pair").click()
        assert page.locator("main script, main img, main a[href^='javascript']").count() == 0
        assert "owned" not in page.title()
        page.goto(f"{address}/reviews")
        assert page.locator("main script").count() == 0


def test_labels_are_given_and_accepted(browser: Browser, world: tuple[Scene, str]) -> None:
    scene, address = world
    with watched(browser) as page:
        sign_in(page, scene, address, "cat")
        page.goto(f"{address}/labels")
        page.get_by_role("link", name="mood", exact=True).first.click()
        for number in range(12):
            expect(page.get_by_text(f"{number} of 12 labelled")).to_be_visible()
            page.keyboard.press("2")
        expect(page.get_by_role("status")).to_contain_text("You are done")
        sign_in(page, scene, address, "bob")
        page.goto(f"{address}/labels/tone/items")
        assert page.get_by_role("button", name="Accept").count() == 0
        sign_in(page, scene, address, "eve")
        page.goto(f"{address}/labels/tone/items")
        page.get_by_label("Choose for mail-002").select_option("neutral")
        page.get_by_role("button", name="Accept agreed and chosen labels").click()
        expect(page.get_by_role("status")).to_contain_text("Accepted")
        expect(page.get_by_text("6 accepted")).to_be_visible()
        with page.expect_download() as waiting:
            page.get_by_role("link", name="Download accepted labels as a data set").click()
        rows = [json.loads(row) for row in text_of(str(waiting.value.path())).splitlines()]
        assert {row["id"]: row["label"] for row in rows}["mail-002"] == "neutral"


PAGES = [
    ("bob", "/reviews"),
    ("eve", "/new-review"),
    ("tom", "/reviews/parcel-replies"),
    ("eve", "/reviews/parcel-replies"),
    ("bob", "/reviews/parcel-replies?begin=yes"),
    ("bob", "/reviews/reply-tone"),
    ("bob", "/reviews/three-drafts"),
    ("bob", "/labels"),
    ("bob", "/review-queue"),
    ("eve", "/new-labels"),
    ("ann", "/labels/mood"),
    ("tom", "/labels/mood"),
    ("bob", "/labels/tone/items"),
    ("eve", "/labels/tone/items"),
]


SIZES: list[Size] = [(1000, "dark"), (390, "light")]


@pytest.fixture(scope="module")
def every_look(browser: Browser, world: tuple[Scene, str]) -> dict[Size, list[Look]]:
    """Every page in every size; a page is opened once."""
    scene, address = world
    found: dict[Size, list[Look]] = {size: [] for size in SIZES}
    with watched(browser) as page:
        for person, path in PAGES:
            sign_in(page, scene, address, person)
            page.goto(address + path)
            for size, one in looks(page, path, SIZES).items():
                found[size].append(one)
    return found


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_pages_fit_and_have_no_serious_barrier(
    every_look: dict[Size, list[Look]], size: Size
) -> None:
    assert len(every_look[size]) == len(PAGES)
    assert [one for one in every_look[size] if one.width > size[0] or one.barriers] == []


def test_answers_lie_side_by_side_on_wide_screens_and_one_below_the_other_on_phones(
    browser: Browser, world: tuple[Scene, str]
) -> None:
    scene, address = world
    for width, is_beside in ((1000, True), (390, False)):
        with watched(browser, width) as page:
            sign_in(page, scene, address, "bob")
            page.goto(f"{address}/reviews/parcel-replies?begin=yes")
            a, b = (
                page.get_by_role("region", name=f"Answer {letter}").bounding_box()
                for letter in "AB"
            )
            assert a is not None
            assert b is not None
            assert (a["y"] == b["y"]) is is_beside
            assert abs(a["width"] - b["width"]) < 1
