"""The forms of run-log records: a type, the rows of its rules, and its examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from gatemark.core.record import Form
from gatemark.evidence.record_rules import (
    RecordRule,
    RecordRules,
    publish,
    rules_of_texts,
    words_of_patterns,
)
from gatemark.plugins.runlog.records.examples import ExamplesOf


def make_rules(
    record_type: type[Struct], rows: Iterable[RecordRule] = ()
) -> RecordRules[RecordRule]:
    """Return the rows of a record type, after what it says about its texts.

    A text that follows from other fields looks as it must where they do.
    """
    rows = tuple(rows)
    following = {row.place for row in rows if row.must.wanted is not None}
    texts = rules_of_texts(record_type, says="got {value!r}, expected {looks}")
    return RecordRules((*(row for row in texts if row.place not in following), *rows))


def make_form(
    record_type: type[Struct],
    examples: ExamplesOf,
    rows: Sequence[RecordRule] = (),
    *,
    of_file: Sequence[RecordRule] = (),
    identity: str = "case_id",
    required: Sequence[str] = (),
) -> Form:
    """Return the form of a record type that is known by its tag.

    The published schema also has what it can say of the rows ``of_file``, which the rules of a file
    check.
    """
    config = record_type.__struct_config__
    name = str(config.tag)
    rules = make_rules(record_type, rows)
    return Form(
        name=name,
        type=record_type,
        marks=frozenset({str(config.tag_field)}),
        identity=identity,
        good=examples.list_good(name),
        bad=examples.list_bad(name, required),
        rules=(rules.find_problems,),
        proof=rules.hold_for_records,
        looks=words_of_patterns(record_type),
        published=publish((*rows, *of_file)),
    )
