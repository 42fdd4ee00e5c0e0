"""Published schemas, the check of one record and that of a batch refuse the same records.

What compares fields with each other no schema can say; that alone may be refused by the checks and
not by the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.changed_records import Change, change_all, list_changes, make_validator, write_line

from gatemark.core.record import Form, RecordSchema
from gatemark.evidence.diagnose import diagnose
from gatemark.evidence.record_rules import RecordRule, RecordRules
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.shape import shape_of
from gatemark.plugins.runlog.records.forms import make_rules
from gatemark.plugins.runlog.records.manifest_rules import META_RULES as MANIFEST_META_RULES
from gatemark.plugins.runlog.records.metrics_rules import AGGREGATE_RULES, PER_CASE_RULES
from gatemark.plugins.runlog.records.run_rules import (
    DECISION_RULES,
    EVENT_RULES,
    FLUSH_RULES,
    META_REMARKS,
    META_RULES,
    OLDER_META_RULES,
)
from gatemark.plugins.runlog.records.trace_rules import BOUNDARY_RULES

_RUN = {
    "run_meta": META_RULES,
    "tokengate_flush": FLUSH_RULES,
    "buffer_decision": DECISION_RULES,
    "summary_event": EVENT_RULES,
}
_ROWS: dict[str, dict[str, Sequence[RecordRule]]] = {
    "exaid.run": _RUN,
    "exaid.run before 1.5": _RUN | {"run_meta": OLDER_META_RULES},
    "exaid.trace": {"trace_meta": (), "stream_delta": (), "turn_boundary": BOUNDARY_RULES},
    "exaid.metrics": {"per_case": PER_CASE_RULES, "aggregate": AGGREGATE_RULES},
    "exaid.manifest": {
        "manifest_meta": MANIFEST_META_RULES,
        "provenance": (),
        "trace_entry": (),
        "summary": (),
    },
}
_VALUES = (
    *("2023-02-30T00:00:00Z", "2024-02-29T23:59:59.5+01:00", "2023-11-14T22:13:20Z\n", "2023"),
    *("sha256:" + "0" * 64, "sha256:" + "A" * 64, "sha256:" + "0" * 64 + "\n"),
    *("case-1", "case-1.trace", "case-\u0663", "V1", "V0\n", "terse", "1.5.7", "1.6.0", "2.1.0"),
    *("case-1-V0-se-001", ["case-1-V0-se-001"], ["x"], ["case-1-V0-se-001", ""], 7, 2**53),
    *("https://example.org/\u00fc", "urn:a\u00a0b", "urn:a\u2003b", "mas_a", "mas-a"),
)


def find_schema(name: str) -> RecordSchema:
    base, _, is_older = name.partition(" before ")
    schema = schemas().get(base)
    return schema.older[0].schema if is_older else schema


class Checks(NamedTuple):
    """The three ways to check records of one form."""

    form: Form
    validator: Any
    rules: RecordRules[Any]
    of_file: RecordRules[Any]
    changes: list[Change]

    def is_refused_by_schema(self, record: Any) -> bool:
        return not self.validator.is_valid(record)

    def list_broken(self, record: Any) -> list[RecordRule] | None:
        """Return the broken rows of one record; None if it is refused before they are asked."""
        try:
            typed = msgspec.convert(record, self.form.type)
        except msgspec.ValidationError:
            return None
        return [rule for rule, _ in self.rules.find_broken(typed)]

    def breaks_rules_of_file(self, record: Any) -> bool:
        typed = msgspec.convert(record, self.form.type)
        return bool(self.of_file.rules and self.of_file.find_problems(typed))

    def is_refused_in_batch(self, record: Any) -> bool:
        try:
            typed = msgspec.json.decode(write_line(record), type=self.form.type)
        except msgspec.ValidationError:
            return True
        good = msgspec.convert(dict(self.form.good[0]), self.form.type)
        shape = shape_of(self.form)
        return not shape.keeps_rules(shape.kinds([good, typed, good]))

    def compare(self, record: Any) -> str:
        """Return what the checks disagree about; empty if they agree."""
        by_schema = self.is_refused_by_schema(record)
        by_record = bool(diagnose(write_line(record), self.form, max_depth=64))
        if by_record != self.is_refused_in_batch(record):
            return f"record {by_record}, batch {not by_record}: {record}"
        if by_schema and not by_record:
            return "" if self.breaks_rules_of_file(record) else f"the schema alone: {record}"
        if by_record and not by_schema:
            broken = self.list_broken(record)
            if not broken or any(rule.must.schema is not None for rule in broken):
                return f"not the schema: {record}"
        return ""


@cache
def make_checks(name: str, form_name: str) -> Checks:
    schema = find_schema(name)
    form = schema.form(form_name)
    is_meta = (name, form_name) == ("exaid.run", "run_meta")
    return Checks(
        form=form,
        validator=make_validator(schema, form),
        rules=make_rules(form.type, _ROWS[name][form_name]),
        of_file=RecordRules(META_REMARKS if is_meta else ()),
        changes=list(list_changes(form.type, _VALUES)),
    )


def list_forms() -> Iterator[tuple[str, str]]:
    for name, rows in _ROWS.items():
        for form_name in rows:
            yield name, form_name


_FORMS = list(list_forms())


def test_every_form_is_compared() -> None:
    for name, rows in _ROWS.items():
        assert {form.name for form in find_schema(name).forms} == set(rows)


@pytest.mark.parametrize(("name", "form_name"), _FORMS)
def test_schema_record_and_batch_agree_on_every_change(name: str, form_name: str) -> None:
    checks = make_checks(name, form_name)
    assert not any(checks.is_refused_by_schema(dict(good)) for good in checks.form.good)
    found = [
        f"{change.name}: {words}"
        for good in checks.form.good
        for change in checks.changes
        if (words := checks.compare(change_all(dict(good), [change])))
    ]
    assert len(checks.changes) > 50
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize(("name", "form_name"), _FORMS)
def test_the_schema_refuses_every_bad_example_that_a_schema_can(name: str, form_name: str) -> None:
    checks = make_checks(name, form_name)
    for bad in checks.form.bad:
        assert checks.is_refused_in_batch(bad.record), bad.title
        assert not checks.compare(bad.record), bad.title


@given(data=st.data())
@settings(max_examples=300)
def test_schema_record_and_batch_agree_on_several_changes_at_once(data: st.DataObject) -> None:
    checks = make_checks(*data.draw(st.sampled_from(_FORMS)))
    good = data.draw(st.sampled_from(list(checks.form.good)))
    changes = data.draw(st.lists(st.sampled_from(checks.changes), min_size=2, max_size=4))
    assert not checks.compare(change_all(dict(good), changes))
