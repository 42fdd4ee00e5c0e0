"""The rules across records are listed in one place for each kind of log, each with an example."""

from __future__ import annotations

import pytest

from gatemark.core.record import RecordSchema
from gatemark.evidence.record_schemas import schemas
from gatemark.testing.schemas import run_file_rules

_SCHEMAS = [schemas().get(f"exaid.{kind}") for kind in ("run", "trace", "manifest", "metrics")]
_WARNINGS = {"window_order", "totals", "numbers_agree"}
"""Rules whose breach is a warning have no file that is refused."""


@pytest.mark.parametrize("schema", _SCHEMAS, ids=lambda schema: schema.name)
def test_every_rule_of_a_file_is_listed_and_has_an_example(schema: RecordSchema) -> None:
    assert {bad.rule for bad in schema.bad_files} == set(schema.file_rules) - _WARNINGS


@pytest.mark.parametrize("schema", _SCHEMAS, ids=lambda schema: schema.name)
def test_no_rule_of_a_file_is_missing_from_the_list(schema: RecordSchema) -> None:
    files = [*schema.good_files, *(bad.records for bad in schema.bad_files)]
    for file in files:
        for at in range(len(file)):
            # Each file once without one of its records, and once with it twice.
            for records in ((*file[:at], *file[at + 1 :]), (*file[:at], file[at], *file[at:])):
                found = {remark.rule for remark in run_file_rules(schema, records)}
                assert found <= set(schema.file_rules)
