from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from tests.report.hostile import NASTY

from gatemark.release.lifecycle.model.nouns import GateFinding, Pins
from gatemark.release.lifecycle.views.page import render_history_page, render_why_page
from gatemark.release.lifecycle.views.text import (
    align_columns,
    asset_text,
    history_text,
    list_text,
    why_text,
)
from gatemark.release.lifecycle.views.timeline import LANES_MAX, draw_timeline
from gatemark.release.lifecycle.views.views import (
    AssetCard,
    AssetRow,
    Citation,
    ClimbStep,
    History,
    HistoryLine,
    Live,
    ShownVote,
    StageSpan,
    VersionLine,
    Why,
)

AT = datetime(2027, 3, 1, 8, tzinfo=UTC)
DIGEST = "sha256:" + "ab" * 32


class Tags(HTMLParser):
    """Which elements a page has, and whether any could run or fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in ("src", "href", "action"):
                self.active.append(f"{tag} {name}={value}")


def segment(version: str, stage: str, start: float, end: float | None) -> StageSpan:
    return StageSpan(
        environment="production",
        version=version,
        stage=stage,
        start=AT + timedelta(hours=start),
        end=None if end is None else AT + timedelta(hours=end),
    )


def history(text: str = "plain", **more: Any) -> History:
    line = HistoryLine(
        seq=7,
        at=AT,
        actor=text,
        version=text,
        environment="production",
        what=text,
        tone="down",
        note=text,
        result_ids=(DIGEST,),
        approved_by=(text,),
    )
    live = Live(
        environment=text,
        version=text,
        since=AT,
        why=text,
        result_ids=(DIGEST,),
        approved_by=(text,),
        canary=text,
        canary_share=0.05,
        shadow=(text,),
    )
    fields: dict[str, Any] = {
        "asset": text,
        "kind": "prompt",
        "risk": "high",
        "at": AT + timedelta(hours=9),
        "live": (live,),
        "segments": (segment(text, "shadow", 0, 2), segment(text, "enabled", 2, None)),
        "lines": (line,),
        "more_lines": 3,
    }
    return History(**{**fields, **more})


def why(text: str = "plain", **more: Any) -> Why:
    gates = tuple(
        GateFinding(gate="replay", state=state, blocks=False, reason=text)  # type: ignore[arg-type]
        for state in ("pass", "fail", "unjudged", "not_applicable", "overridden", "break_glass")
    )
    step = ClimbStep(
        seq=3,
        at=AT,
        actor=text,
        before="shadow",
        after="canary_1",
        cause="promote",
        note=text,
        result_ids=(DIGEST,),
        approved_by=(text,),
        window_count=2,
        gates=gates,
        policy_digest=DIGEST,
    )
    citation = Citation(
        id=DIGEST,
        worth="verified",
        reason=text,
        verdict="pass",
        title=text,
        pack=text,
        actor=text,
        sealed_at=AT,
    )
    vote = ShownVote(
        seq=2,
        actor=text,
        stage="canary_1",
        decision="approve",
        at=AT,
        expires_at=AT,
        was_used=False,
        note=text,
    )
    fields: dict[str, Any] = {
        "asset": text,
        "version": text,
        "environment": "production",
        "kind": "prompt",
        "risk": "normal",
        "stage": "canary_1",
        "since": AT,
        "author": text,
        "parent": None,
        "digest": DIGEST,
        "pins": Pins(model=text, tools={text: text}),
        "pins_digest": DIGEST,
        "paused": text,
        "break_glass": text,
        "steps": (step,),
        "citations": (citation, Citation(id=DIGEST, worth="missing", reason=text)),
        "votes": (vote,),
        "overrides": (text,),
        "problems": (text,),
        "next_moves": (text,),
    }
    return Why(**{**fields, **more})


@pytest.mark.parametrize("text", [text for text in NASTY if text])
def test_no_text_breaks_out_of_a_page(text: str) -> None:
    usual = (Tags(), Tags())
    hostile = (Tags(), Tags())
    for tags, word in ((usual, "plain"), (hostile, text)):
        tags[0].feed(render_history_page(history(word)).decode())
        tags[1].feed(render_why_page(why(word)).decode())
    for one, other in zip(usual, hostile, strict=True):
        assert one.names == other.names
        assert other.active == []


@pytest.mark.parametrize("text", NASTY)
def test_no_text_breaks_a_line_in_the_terminal(text: str) -> None:
    for told in (history_text(history(text)), why_text(why(text))):
        assert "\x1b" not in told
        assert len(told.splitlines()) <= 60


def test_a_broken_glass_and_a_problem_make_a_page_red() -> None:
    calm = why(break_glass=None, problems=(), paused=None)
    assert 'class="banner pass"' in render_why_page(calm).decode()
    for change in ({"break_glass": "INC-1"}, {"problems": ("gone",)}):
        page = render_why_page(msgspec.structs.replace(calm, **change)).decode()
        assert 'class="banner fail"' in page
    fallen = msgspec.structs.replace(calm, stage="rolled_back")
    assert 'class="banner fail"' in render_why_page(fallen).decode()
    early = msgspec.structs.replace(calm, stage="draft", steps=(), citations=(), votes=())
    page = render_why_page(msgspec.structs.replace(early, next_moves=())).decode()
    assert "No steps yet." in page
    assert "This stage is final." in page


def test_a_history_where_nothing_is_live_is_not_green() -> None:
    nothing = Live(environment="production", version=None, since=None, why="no version is enabled")
    page = render_history_page(history(live=(nothing,), segments=())).decode()
    assert 'class="banner inconclusive"' in page
    assert "NOTHING LIVE" in page
    assert "<svg" not in page
    assert "No version had left the draft stage." in render_history_page(history(live=())).decode()


def test_a_timeline_places_stages_in_time() -> None:
    drawn = draw_timeline(
        [segment("1", "enabled", 0, 5), segment("2", "shadow", 5, 10), segment("3", "draft", 0, 1)],
        AT + timedelta(hours=10),
    )
    assert drawn is not None
    assert [lane.name for lane in drawn.lanes] == ["1", "2"]
    (first,), (second,) = (lane.bars for lane in drawn.lanes)
    assert first.width == pytest.approx(second.width)
    assert first.x + first.width == pytest.approx(second.x)
    assert "enabled in turn were 1" in drawn.description
    assert [mark.anchor for mark in drawn.marks] == ["start", "middle", "middle", "middle", "end"]


def test_a_timeline_draws_the_newest_versions_and_counts_the_rest() -> None:
    many = [segment(str(at), "enabled", at, at + 1) for at in range(LANES_MAX + 5)]
    drawn = draw_timeline(many, AT + timedelta(hours=100))
    assert drawn is not None
    assert len(drawn.lanes) == LANES_MAX
    assert drawn.more_lanes == 5
    assert drawn.lanes[-1].name == str(LANES_MAX + 4)


def test_a_timeline_of_one_moment_and_of_nothing() -> None:
    assert draw_timeline([], AT) is None
    assert draw_timeline([segment("1", "enabled", 5, None)], AT) is None
    drawn = draw_timeline([segment("1", "enabled", 0, None)], AT)
    assert drawn is not None
    assert drawn.lanes[0].bars[0].width >= 2


def test_two_environments_have_lanes_of_their_own() -> None:
    staging = msgspec.structs.replace(segment("1", "enabled", 0, 5), environment="staging")
    drawn = draw_timeline([segment("1", "enabled", 0, 5), staging], AT + timedelta(hours=10))
    assert drawn is not None
    assert [lane.name for lane in drawn.lanes] == ["1 (production)", "1 (staging)"]


def test_lists_and_cards_are_told_in_columns() -> None:
    row = AssetRow(
        asset="triage",
        kind="prompt",
        risk="normal",
        environment="production",
        enabled=None,
        canary="2",
        version_count=3,
    )
    assert list_text([]) == ""
    assert list_text([row]).splitlines()[1].split() == [
        *("triage", "prompt", "production", "nothing", "2", "3")
    ]
    version = VersionLine(
        version="2",
        stage="canary_1",
        since=AT,
        author="ann",
        parent="1",
        digest=DIGEST,
        pins=Pins(),
        paused="warn",
        has_break_glass=True,
        is_undecided=False,
        result_ids=(),
    )
    card = AssetCard(
        asset="triage",
        kind="prompt",
        risk="normal",
        environment="production",
        revision=9,
        required_pack=None,
        required_pack_editor=None,
        enabled=None,
        canary="2",
        versions=(version,),
    )
    told = asset_text(card)
    assert "required pack: not set" in told
    assert "paused: warn, BREAK-GLASS" in told
    assert align_columns([]) == []


def test_a_vote_that_no_longer_counts_says_so() -> None:
    vote = why("plain").votes[0]
    late = msgspec.structs.replace(vote, is_expired=True)
    other = msgspec.structs.replace(vote, is_replaced=True)
    for one, word, shown in (
        (vote, "not used, counts until", ">until "),
        (late, "expired at", ">expired "),
        (other, "replaced by a later vote", "replaced by a later vote"),
    ):
        told = msgspec.structs.replace(why("plain"), votes=(one,))
        assert word in why_text(told)
        assert shown in render_why_page(told).decode()


def test_a_citation_that_holds_can_have_a_caveat() -> None:
    holds, missing = why("plain").citations
    erased = msgspec.structs.replace(holds, caveat="evidence was erased")
    for page in (why_text, lambda told: render_why_page(told).decode()):
        assert "evidence was erased" not in page(why("plain", citations=(holds, missing)))
        assert "evidence was erased" in page(why("plain", citations=(erased, missing)))
