"""Scripts set options by their environment variables: no name goes away, whatever is rebuilt."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.transcript import ROOT

KEPT = Path(__file__).with_name("environment_names.txt")


def test_no_environment_variable_of_an_option_is_renamed() -> None:
    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`(GATEMARK_[A-Z0-9_]+)`", page))
    assert set(KEPT.read_text().split()) - known == set()
    # The page is made from the commands; a new option adds its name to the list.
    assert known - set(KEPT.read_text().split()) == set()
