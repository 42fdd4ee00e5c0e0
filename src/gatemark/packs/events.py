"""The events of packs: results that people accept or name as baselines."""

from __future__ import annotations

import msgspec

from gatemark.ledger.event_kinds import EventKind, declare


class BaselineSet(msgspec.Struct, frozen=True):
    """Payload of ``baseline_set``: a name for a result that candidates are compared with."""

    name: str
    result: str
    pack: str
    asset: str
    note: str = ""


class ResultBlessed(msgspec.Struct, frozen=True):
    """Payload of ``result_blessed``: why a person accepts a result as a baseline."""

    result: str
    verdict: str
    reason: str


BASELINE_SET = declare(
    EventKind(
        name="baseline_set",
        when="a sealed result gets a name as a baseline",
        payload=BaselineSet,
    )
).name
RESULT_BLESSED = declare(
    EventKind(
        name="result_blessed",
        when="a person accepts a sealed result as a baseline, with a reason",
        payload=ResultBlessed,
    )
).name
