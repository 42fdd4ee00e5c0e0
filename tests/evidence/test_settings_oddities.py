from __future__ import annotations

from typing import cast

import pytest

from gatemark.core.errors import BadInputError
from gatemark.evidence import settings_file
from gatemark.evidence.settings_file import parse_settings


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("2026-02-30", "the value '2026-02-30' cannot be read as a date"),
        ("2026-01-01 25:00:00", "cannot be read as a date"),
        ("9" * 5000, "cannot be read as a number"),
        ("!!int x", "the value 'x' cannot be read as a number"),
        ("!!bool x", "cannot be read as a boolean"),
        ('"\\ud800"', "half of a surrogate pair stands alone"),
        ('{"\\udfff": 1}', "half of a surrogate pair stands alone"),
        ('"a\\0b"', "a text has a null"),
        ('{"a\\u0000": 1}', "a text has a null"),
    ],
)
def test_a_value_that_no_reader_can_take_is_refused_with_its_line(value: str, problem: str) -> None:
    with pytest.raises(BadInputError, match=r"^s\.yaml:2: ") as refused:
        parse_settings(f"a: 1\nb: {value}\n", "s.yaml")
    assert problem in str(refused.value)


def test_a_file_of_too_many_values_is_refused_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert settings_file.MAX_WRITTEN == 100_000
    # A hundred thousand take seconds to read.
    monkeypatch.setattr(settings_file, "MAX_WRITTEN", 2_001)
    text = "\n".join(f"k{n}: 1" for n in range(1_000))
    assert len(cast("dict[str, int]", parse_settings(text, "s.yaml"))) == 1_000
    # What comes after the last value that is read may be anything.
    with pytest.raises(BadInputError, match=r"s\.yaml:1001: .*more than 2001 values"):
        parse_settings(f"{text}\nk1000: 1\n{text}\n}}", "s.yaml")


def test_numbers_with_an_exponent_are_numbers_in_json_and_texts_in_yaml() -> None:
    assert parse_settings('{"a": 1e-2, "b": [2E3], "c": "1e-2"}', "p") == {
        "a": 0.01,
        "b": [2000.0],
        "c": "1e-2",
    }
    assert parse_settings("commit: 12e4567", "p") == {"commit": "12e4567"}
