"""Events that nobody can decide neither blind the probe nor hide what serves from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.core.canonical import digest
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import LIFECYCLE_RULES
from gatemark.release.drift.assets import Served

from .live import ASSET, Live, lively

FUTURE = LIFECYCLE_RULES.current + 1


@pytest.fixture
def live(tmp_path: Path) -> Live:
    found = Live(str(tmp_path / "store"), tmp_path)
    found.enable()
    return found


def forge(live: Live, kind: str, rules: object, /, **said: Any) -> None:
    """Append a copy of the last event of a kind that names other rules, and says other things."""
    last = live.events(kind)[-1][1]
    payload: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({**last, **said}))
    payload["decided_by"]["rules"] = rules
    draft = EventDraft(kind, live.now, "mallory", payload["asset"], payload)
    live.workspace.events.append([draft])


TAKEOVER = {"version": "9.9.9", "before": "shadow", "after": "enabled", "cause": "promote"}


@pytest.mark.parametrize("rules", [0, LIFECYCLE_RULES.current, FUTURE])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("transition", TAKEOVER),
        ("transition", {"after": "superseded", "before": "enabled", "cause": "supersede"}),
        ("transition", {"asset": "another"}),
        ("asset_registered", {"asset": "another"}),
        ("asset_registered", {"asset": "another", "kind": "nonsense", "version": 7}),
        ("transition", {"asset": "another", "after": "nonsense"}),
    ],
)
def test_no_forged_event_keeps_a_breach_from_demoting(
    live: Live, kind: str, said: dict[str, Any], rules: int
) -> None:
    if rules == LIFECYCLE_RULES.current and said.get("after") == "superseded":
        pytest.skip("what these rules could have decided is for verification to refuse")
    live.push(0, [*lively(), 6.0, 3.0])
    forge(live, kind, rules, **said)
    live.probe(17)
    found = live.probe(18)
    assert ("demote", "1.0.0 was demoted") in [(d.act, d.outcome) for d in found.actions]
    assert live.stage() == "demoted"


def test_results_are_about_what_serves_whatever_a_forger_says(live: Live) -> None:
    takeover = {**TAKEOVER, "candidate_digest": digest("9.9.9")}
    forge(live, "transition", FUTURE, **takeover)
    served = Served(live.workspace)
    assert served.is_about(ASSET, digest("1.0.0"), live.now)
    assert not served.is_about(ASSET, digest("9.9.9"), live.now)
