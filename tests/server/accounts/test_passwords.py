from __future__ import annotations

import pytest
from argon2 import extract_parameters

from gatemark.core.errors import InvalidValueError
from gatemark.server.accounts.nouns import _NOBODY, MAX_PASSWORD, hash_password, is_password

PASSWORD = "correct horse battery"


def test_a_password_is_kept_as_a_slow_salted_hash() -> None:
    kept = hash_password(PASSWORD)
    assert kept != hash_password(PASSWORD)
    found = extract_parameters(kept)
    assert kept.startswith("$argon2id$")
    assert found.memory_cost >= 64 * 1024
    assert found.time_cost >= 3
    assert is_password(kept, PASSWORD)
    assert not is_password(kept, PASSWORD + "!")


def test_a_name_that_nobody_has_is_checked_as_slowly_and_refused() -> None:
    found = extract_parameters(hash_password(PASSWORD))
    assert extract_parameters(_NOBODY) == found
    assert not is_password(None, PASSWORD)


@pytest.mark.parametrize("text", ["short", "x" * (MAX_PASSWORD + 1)])
def test_too_short_and_too_long_passwords_are_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="must have 12 to 256 characters"):
        hash_password(text)
    assert not is_password(None, text)
