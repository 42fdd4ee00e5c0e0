from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.ledger.event import (
    EMPTY,
    GENESIS,
    EventDraft,
    encode_event,
    encode_payload,
    link,
    moment_text,
    read_payload,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SALT = "0f" * 16
names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40).filter(
    str.strip
)
moments = st.datetimes(timezones=st.just(UTC))
scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=12)
values = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)


def draft(**more: Any) -> EventDraft:
    fields = {"kind": "noted", "at": NOW, "actor": "a", "subject": None, "payload": {}}
    return EventDraft(**{**fields, **more})


@settings(deadline=None, max_examples=150)
@given(actor=names, subject=st.none() | names, at=moments, seq=st.integers(0, 2**53 - 2))
def test_the_fast_bytes_of_an_event_are_the_canonical_ones(
    actor: str, subject: str | None, at: datetime, seq: int
) -> None:
    event, body = link(
        msgspec.structs.replace(EMPTY, seq=seq),
        draft(actor=actor, subject=subject, at=at),
        "sha256:" + "1" * 64,
    )
    expected = {
        "actor": actor,
        "at": moment_text(at),
        "kind": "noted",
        "payload_digest": "sha256:" + "1" * 64,
        "prev": GENESIS,
        "schema": "gatemark.event/1",
        "seq": seq + 1,
        "subject": subject,
    }
    assert body == encode_event(event) == rfc8785.dumps(expected)
    assert event.digest == "sha256:" + hashlib.sha256(body).hexdigest()


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text(max_size=6), values, max_size=4))
def test_a_payload_comes_back_and_its_bytes_are_canonical(payload: dict[str, Any]) -> None:
    data = encode_payload(payload, SALT)
    assert data == rfc8785.dumps({"payload": payload, "salt": SALT})
    read = read_payload(data)
    assert (read.salt, read.content) == (SALT, payload)


def test_large_floats_and_rare_keys_come_back_too() -> None:
    payload = {"\U0001f600": 2.0**53, "\ufb33": 1e20, "x": -(2.0**60), "y": 1e300, "z": 5e-324}
    assert read_payload(encode_payload(payload, SALT)).content == payload


@pytest.mark.parametrize(
    "data",
    [
        b'{"payload":{"a":1,"a":1},"salt":"s"}',
        b'{"payload":{},"payload":{},"salt":"s"}',
        b'{"payload":{"b":1,"a":2},"salt":"s"}',
        b'{"payload":{"a": 1},"salt":"s"}',
        b'{"payload":{"a":1e3},"salt":"s"}',
        b'{"payload":{"a":"\\u0041"},"salt":"s"}',
        b'{"payload":{},"salt":"s","x":1}',
        b'{"payload":[],"salt":"s"}',
        b'{"payload":{}}',
        b"",
        b"\xff",
    ],
)
def test_a_payload_that_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidValueError):
        read_payload(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "Noted"),
        ("kind", "two words"),
        ("kind", ""),
        ("kind", "k" * 65),
        ("at", datetime(2026, 5, 4)),  # noqa: DTZ001
        ("at", datetime(2026, 5, 4, tzinfo=timezone(timedelta(hours=2)))),
        ("actor", " "),
        ("actor", "a\nb"),
        ("actor", "\ud800"),
        ("actor", "a" * 513),
        ("subject", ""),
        ("subject", "a\x00"),
    ],
)
def test_a_draft_holds_nothing_that_could_not_be_chained(field: str, value: object) -> None:
    with pytest.raises(InvalidValueError):
        draft(**{field: value})


@pytest.mark.parametrize(
    "payload",
    [{"a": float("nan")}, {"a": float("inf")}, {"a": 2**53}, {"a": "\ud800"}, {"a": "x" * 2**20}],
)
def test_a_payload_without_a_canonical_form_or_too_large_is_refused(payload: Any) -> None:
    with pytest.raises(InvalidValueError):
        encode_payload(payload, SALT)


def test_the_salt_decides_about_the_digest() -> None:
    assert encode_payload({}, SALT) != encode_payload({}, "1f" * 16)
    for bad in ("", "0" * 31, "Z" * 32, "0" * 33):
        with pytest.raises(InvalidValueError, match="salt"):
            encode_payload({}, bad)


def test_moments_are_written_in_utc_with_z() -> None:
    east = timezone(timedelta(hours=2))
    assert moment_text(datetime(2026, 5, 4, 14, tzinfo=east)) == "2026-05-04T12:00:00Z"
    assert moment_text(NOW.replace(microsecond=5)) == "2026-05-04T12:00:00.000005Z"
