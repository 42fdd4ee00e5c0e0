from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.plugins.advisory.dry_run.ask import make_ulid
from gatemark.plugins.advisory.record import ID_PATTERN

THEN = datetime(2026, 6, 6, tzinfo=UTC)


@settings(deadline=None)
@given(st.integers(0, 10**10), st.binary(min_size=10, max_size=10))
def test_every_id_is_one_that_records_accept(second: int, chance: bytes) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    assert re.match(ID_PATTERN, make_ulid(at, lambda _: chance))


def test_a_known_ulid_comes_out() -> None:
    # The example of the ULID specification: 1469918176385 ms.
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1469918176385)
    assert make_ulid(at, bytes).startswith("01ARYZ6S41")
    assert make_ulid(at, bytes) == "01ARYZ6S41" + "0" * 16
    assert make_ulid(at, lambda n: b"\xff" * n) == "01ARYZ6S41" + "Z" * 16


def test_later_ids_sort_after_earlier_ones() -> None:
    chance = iter([b"\xff" * 10, bytes(10)])
    assert make_ulid(THEN, lambda _: next(chance)) < make_ulid(
        THEN + timedelta(milliseconds=1), lambda _: next(chance)
    )
