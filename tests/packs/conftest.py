"""What tests of packs share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _retries_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a retry waits is tested with the runner (``tests/targets/test_limits.py``)."""
    monkeypatch.setattr("gatemark.targets.runner.draw_backoff_s", lambda *_, **__: 0.0)
