"""The page about advisory files names every policy key with its default, every note and schema."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from gatemark.evidence.private_text import PrivateTextRules
from gatemark.plugins.advisory.exam import SUITE
from gatemark.plugins.advisory.policy import AdvisoryPolicy, LanePolicy, Promotion, Stability
from gatemark.plugins.advisory.policy_limits import LaneBounds, OverallBounds
from gatemark.plugins.advisory.record import CASE_NOTES, SCHEMA_NAME
from gatemark.plugins.advisory.taxonomy import Taxonomy

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "advisory.md"
ROWS = {
    found[1]: [cell.strip() for cell in found[2].split("|")]
    for found in re.finditer(r"^\| `([^`]+)` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
}
STRUCTS = (AdvisoryPolicy, LanePolicy, LaneBounds, OverallBounds, Promotion, Stability, Taxonomy)


@pytest.mark.parametrize("struct", [*STRUCTS, PrivateTextRules])
def test_every_policy_key_has_a_row(struct: type[msgspec.Struct]) -> None:
    assert set(struct.__struct_fields__) <= ROWS.keys()


@pytest.mark.parametrize(("struct", "column"), [(OverallBounds, 0), (LaneBounds, 1)])
def test_bounds_are_those_of_the_code(struct: type[msgspec.Struct], column: int) -> None:
    for name, value in msgspec.structs.asdict(struct()).items():
        shown = {None: "none", False: "false"}.get(value, f"{value:g}" if value else "0")
        assert ROWS[name][column] == shown, name


@pytest.mark.parametrize("struct", [Stability, PrivateTextRules])
def test_numbers_are_those_of_the_code(struct: type[msgspec.Struct]) -> None:
    for name, value in msgspec.structs.asdict(struct()).items():
        if isinstance(value, int | float):
            assert ROWS[name][0] == f"{value:g}", name


def test_every_note_and_schema_is_named() -> None:
    assert CASE_NOTES.keys() <= ROWS.keys()
    text = PAGE.read_text()
    for name in (SCHEMA_NAME, *(document.name for document in SUITE.documents)):
        assert f"`{name}`" in text
