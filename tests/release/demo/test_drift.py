from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.release.demo.drift import play_drift
from gatemark.workspace import Workspace


@pytest.mark.slow
def test_the_demo_of_drift_goes_as_planned(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    steps = list(play_drift(tmp_path, store, datetime(2027, 3, 1, tzinfo=UTC)))
    assert [step.name for step in steps if step.is_astray] == []
    assert [step.found for step in steps] == [
        *("enabled", "OK", "WARN", "enabled", "BREACH", "demoted"),
        *("refused", "pass", "closed", "enabled"),
    ]
    assert "only a new required-pack result can promote it again" in steps[6].line
    page = (tmp_path / "drift.html").read_text(encoding="utf-8")
    assert "parcel-desk: drift" in page
    workspace = Workspace(store=store)
    assert verify_ledger(workspace.existing_store()).issues == ()
