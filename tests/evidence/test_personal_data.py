from __future__ import annotations

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemark.evidence.personal_data import find_suspects, personal_data

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
    assert find_suspects(["fine", reason, "fine", reason]) == [1, 3]


@pytest.mark.parametrize("reason", CLEAN)
def test_ordinary_reasons_are_clean(reason: str) -> None:
    assert personal_data(reason) == ()


def test_the_screen_lets_ordinary_batches_through() -> None:
    assert find_suspects([*CLEAN, "", "id 3f2a9c0d77b1e6f4, row 1234567, part 8", ""]) == []


@given(
    st.lists(st.text(max_size=40), max_size=4),
    st.text(max_size=20),
    st.sampled_from(list(DIRTY)),
    st.booleans(),
)
def test_the_screen_never_misses_what_the_patterns_find(
    others: list[str], around: str, dirty: str, breaks: bool
) -> None:
    reasons = [*others, f"{around} {dirty} {around}", around + dirty]
    if breaks:
        reasons = [reason.replace(" ", "\n") for reason in reasons]
    found = find_suspects(reasons)
    assert found == sorted(set(found))
    assert {place for place, one in enumerate(reasons) if personal_data(one)} <= set(found)


def test_the_screen_reads_every_digit_that_the_patterns_read() -> None:
    digits = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isdecimal()]
    numbers = [f"call {digit * 10}" for digit in digits]
    assert all(map(personal_data, numbers))
    assert find_suspects(numbers) == list(range(len(numbers)))


PIECES = (
    *"0123456789aZ _-.()+,/*@#\n",
    "-----BEGIN",
    "ü",
    "é1",
    "\u0665",
    "12345678",
    "abcdefghijklmnopq",
    "x" * 40,
    "sk-",
    "2026-03-24T10:00:00Z",
    "123-45-",
)


@pytest.mark.parametrize("seed", range(60))
def test_many_texts_are_screened_at_once_as_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    pieces = draw.sample(PIECES, draw.randint(3, len(PIECES)))
    counts = draw.choice(((0, 12), (5, 40), (0, 300)))
    texts = ["".join(draw.choices(pieces, k=draw.randint(*counts))) for _ in range(80)]
    found = find_suspects(texts)
    assert found == [place for place, one in enumerate(texts) if find_suspects([one])]
    assert {place for place, one in enumerate(texts) if personal_data(one)} <= set(found)
