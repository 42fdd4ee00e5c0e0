from __future__ import annotations

import re

import pytest

from gatemark.checks.calibration.score import CalibrationScore
from gatemark.checks.preference.score import PreferenceScore
from gatemark.release.attribution.import_decisions import DecisionsImported
from gatemark.release.attribution.nouns import Attribution
from gatemark.samples.import_logs import ImportSummary
from gatemark.samples.views import ComparisonReport

from .transcript import ROOT

DOCUMENTS = {
    "The comparison": ComparisonReport,
    "The import": ImportSummary,
    "Decisions from traces": DecisionsImported,
    "The attribution": Attribution,
    "Calibration": CalibrationScore,
    "Preference": PreferenceScore,
}


@pytest.mark.parametrize("title", DOCUMENTS)
def test_every_key_of_a_document_is_on_the_page(title: str) -> None:
    page = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^### {title} \(.*?(?=^### |\Z)", page, re.MULTILINE | re.DOTALL)
    told = set(re.findall(r"`(\w+)`", section))
    assert set(DOCUMENTS[title].__struct_fields__) <= told
