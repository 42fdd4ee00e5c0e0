"""``deliveries.trip/1``: how long a delivery was to take, and how long it took."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gatemark.core.record import BadExample, Form, RecordSchema

Minutes = Annotated[float, Meta(ge=0, le=10_000)]


class Trip(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One delivery."""

    id: Annotated[str, Meta(min_length=1, max_length=512)]
    promised_minutes: Minutes
    minutes: Minutes


SCHEMA = RecordSchema(
    name="deliveries.trip/1",
    summary="How long a delivery was to take, and how long it took.",
    forms=(
        Form(
            name="trip",
            type=Trip,
            marks=frozenset({"id", "promised_minutes", "minutes"}),
            identity="id",
            good=({"id": "T1", "promised_minutes": 30, "minutes": 28.5},),
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
