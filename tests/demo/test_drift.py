from __future__ import annotations

from pathlib import Path

import pytest

from gatemark.demo.drift import demo_drift
from gatemark.ledger.checks.verify import verify_ledger
from gatemark.workspace import Workspace


@pytest.mark.slow
def test_the_demo_of_drift_goes_as_planned(tmp_path: Path) -> None:
    steps = list(demo_drift(tmp_path))
    assert [step.name for step in steps if step.is_astray] == []
    assert [step.found for step in steps] == [
        *("enabled", "OK", "WARN", "enabled", "BREACH", "demoted"),
        *("refused", "pass", "closed", "enabled"),
    ]
    assert "only a fresh full-pack result leads back" in steps[6].line
    page = (tmp_path / "drift.html").read_text(encoding="utf-8")
    assert "parcel-mail: drift" in page
    workspace = Workspace(store=str(tmp_path / "drift-store"))
    assert verify_ledger(workspace.existing_store()).troubles == ()
