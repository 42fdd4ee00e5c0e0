"""Ledger events of schedules."""

from __future__ import annotations

from typing import Final

from gatemark.ledger.event_kinds import declare_plain

SCHEDULE_FAILED: Final = declare_plain(
    "schedule_failed", "a scheduled run does not pass, or cannot be judged"
)
SCHEDULE_OVERDUE: Final = declare_plain(
    "schedule_overdue", "a scheduled run is overdue", is_kept=False
)
