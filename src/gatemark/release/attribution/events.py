"""Ledger events of attributions."""

from __future__ import annotations

from typing import Final

from gatemark.ledger.event_kinds import declare_plain

ATTRIBUTION_SEALED: Final = declare_plain("attribution_sealed", "a failure is attributed to a step")
ATTRIBUTION_REVIEWED: Final = declare_plain(
    "attribution_reviewed", "people judge what an attribution proposes"
)
