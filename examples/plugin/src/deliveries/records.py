"""``deliveries.trip/1``: how long a delivery was to take, and how long it took."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.record import BadExample, Form, RecordSchema

Minutes = Annotated[float, Meta(ge=0, le=10_000)]


class Trip(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One delivery."""

    id: Annotated[str, Meta(min_length=1, max_length=512)]
    promised_minutes: Minutes
    minutes: Minutes
    courier: Annotated[str, Meta(min_length=1, max_length=128)] | UnsetType = UNSET
    at: Annotated[datetime, Meta(tz=True)] | UnsetType = UNSET


SCHEMA = RecordSchema(
    name="deliveries.trip/1",
    summary="How long a delivery was to take, and how long it took.",
    forms=(
        Form(
            name="trip",
            type=Trip,
            marks=frozenset({"id", "promised_minutes", "minutes"}),
            identity="id",
            good=(
                {"id": "T1", "promised_minutes": 30, "minutes": 28.5},
                {
                    "id": "T1",
                    "promised_minutes": 30,
                    "minutes": 28.5,
                    "courier": "north",
                    "at": "2026-03-01T09:30:00Z",
                },
            ),
            bad=(
                BadExample(
                    "less than no time",
                    {"id": "T2", "promised_minutes": 30, "minutes": -1},
                    "$.minutes",
                ),
            ),
        ),
    ),
)
