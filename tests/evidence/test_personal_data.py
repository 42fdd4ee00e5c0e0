from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemark.evidence.personal_data import personal_data, suspicious

# Assembled at run time so that no scanner mistakes a test for a leak.
KEY = "sk-" + "a1B2c3D4" * 3
DIRTY = {
    "write to ada.lovelace@example.org": ("email",),
    "call +44 20 7946 0958 first": ("phone",),
    "call (030) 901820-1234": ("phone",),
    "rang 5551234567 twice": ("phone",),
    f"token {KEY} was echoed": ("key",),
    "hash " + "0f" * 20: ("key",),
    "-----BEGIN RSA " + "PRIVATE KEY-----": ("key",),
}
CLEAN = (
    "claim contained; cites p1#2",
    "constraints_mismatch in the echo, see section 4.2.1",
    "checked on 2026-11-02, 3 of 14 passages",
    "provenance ok; NOT_IN_CONTEXT expected",
    "page 12 345 of the ledger",
    "p10000#123456",
)


@pytest.mark.parametrize(("reason", "kinds"), DIRTY.items())
def test_personal_data_is_flagged_by_kind(reason: str, kinds: tuple[str, ...]) -> None:
    assert personal_data(reason) == kinds
    assert suspicious(["fine", reason, "fine"])


@pytest.mark.parametrize("reason", CLEAN)
def test_ordinary_reasons_are_clean(reason: str) -> None:
    assert personal_data(reason) == ()


def test_the_screen_lets_ordinary_batches_through() -> None:
    assert not suspicious([reason for reason in CLEAN if "constraints_mismatch" not in reason])


@given(
    st.lists(st.text(max_size=40), max_size=4), st.text(max_size=20), st.sampled_from(list(DIRTY))
)
def test_the_screen_never_misses_what_the_patterns_find(
    others: list[str], around: str, dirty: str
) -> None:
    for reason in (*others, f"{around} {dirty} {around}", around + dirty):
        if personal_data(reason):
            assert suspicious([*others, reason])
