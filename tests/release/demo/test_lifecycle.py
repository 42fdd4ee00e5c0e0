from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.release.demo.lifecycle import play_lifecycle
from gatemark.workspace import Workspace


def test_the_demo_promotes_with_two_people_and_shows_a_refused_self_approval(
    tmp_path: Path,
) -> None:
    store, start = str(tmp_path / "store"), datetime(2027, 6, 1, 9, 30, tzinfo=UTC)
    acts = list(play_lifecycle(tmp_path, store, start))
    assert all(act.planned for act in acts)
    refused = [act.lines[-1] for act in acts if act.was_refused]
    assert refused == [
        "refused: sign_off: 0 of 1 approvals",
        "refused: ann is the author of parcel-mail@1.1.0 and cannot approve it",
    ]
    told = "\n".join(line for act in acts for line in act.lines)
    for step in (
        "shadow → canary_1",
        "canary_1 → canary_5 (ramp",
        "canary_5 → canary_25 (ramp",
        "parcel-mail@1.1.0: canary_25 → enabled (promote)",
        "parcel-mail@1.0.0: enabled → superseded",
    ):
        assert step in told
    for page in ("history.html", "why.html"):
        text = (tmp_path / page).read_text(encoding="utf-8")
        assert text.count("<h1") == 1
        assert "http://" not in text
        assert "https://" not in text
    workspace = Workspace(store=store)
    assert verify_ledger(workspace.store).issues == ()
    events = [(event.actor, event.kind) for event, _ in workspace.events.events()]
    assert {actor for actor, kind in events if kind == "approval"} == {"bob"}
    assert max(event.at for event, _ in workspace.events.events()) < start + timedelta(hours=72)
