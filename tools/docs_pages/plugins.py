"""The reference pages of schemas, measures and suites, made from what each of them carries."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from docs_pages.types import definition_of, type_words
from gatemark.core.fold import KnownAnswer, Measure
from gatemark.core.policy import Rule
from gatemark.core.record import Form, RecordSchema
from gatemark.evidence.exam_suite import ExamSuite, Suite, suites
from gatemark.evidence.json_schema import form_document
from gatemark.evidence.measures import measures
from gatemark.evidence.record_schemas import schemas
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.suite import PackSuite

_SCHEMAS_OPENING = """\
# Evidence schemas

Evidence is JSON Lines: one record per line, UTF-8. `gatemark schema NAME` prints the same as a
JSON Schema (Draft 2020-12), and `gatemark validate FILE` checks a file against it. Where a table
says so, a key that is not listed is refused.
"""
_MEASURES_OPENING = """\
# Measures

A measure is a fold over items. Each carries worked examples, and the common check of all measures
must find exactly these numbers. "none" means that the measure must give a reason in place of a
number. [Add a measure](../how-to/add-a-measure.md) shows how to write one.
"""
_SUITES_OPENING = """\
# Suites

A suite reads one kind of evidence, measures it and brings the rules it is judged by. The tables
show the rules with default options. What a rule can say is told in
[the gate](../explanation/gate.md).
"""


def schemas_page() -> str:
    """Every schema with its forms, their keys and an example."""
    return _joined([_SCHEMAS_OPENING, *(part for schema in schemas() for part in _schema(schema))])


def measures_page() -> str:
    """Every measure with what it gives and its known answers."""
    parts = [part for measure in measures() for part in _measure(measure)]
    return _joined([_MEASURES_OPENING, *parts])


def suites_page() -> str:
    """Every suite with its options and its rules."""
    return _joined([_SUITES_OPENING, *(part for suite in suites() for part in _suite(suite))])


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def _schema(schema: RecordSchema) -> Iterator[str]:
    yield f"## {schema.name}"
    yield schema.summary
    if schema.tag is not None:
        yield (
            f"A file may hold all of these forms; `{schema.tag}` says which one a record is. "
            "Rules across the records of a file are checked too."
        )
    for form in schema.forms:
        yield f"### Form {form.name}"
        if schema.tag is not None:
            yield f"Recognised by `{schema.tag}` being `{form.name}`."
        else:
            marks = ", ".join(f"`{mark}`" for mark in sorted(form.marks))
            yield (
                f"Recognised by the keys {marks}; a record is named by its `{form.identity}`"
                f"{_uniqueness(form)}."
            )
        yield from _form(form)
    if schema.file_rules:
        yield _table(("Rule of a file", "Demands that", "Refuses, say"), _file_rules(schema))
    elif schema.bad_files:
        yield _table(
            ("A file is refused for", "By the rule"),
            ((bad.title, f"`{bad.rule}`") for bad in schema.bad_files),
        )
    for dialect in schema.older:
        yield f"Also read: {dialect.schema.summary[0].lower()}{dialect.schema.summary[1:]}"


def _file_rules(schema: RecordSchema) -> Iterator[tuple[str, ...]]:
    for rule, demand in schema.file_rules.items():
        titles = [bad.title for bad in schema.bad_files if bad.rule == rule]
        yield f"`{rule}`", demand, ", ".join(titles)


def _uniqueness(form: Form) -> str:
    if form.unique is None:
        return ", which comes only once in a file"
    fields = " and ".join(f"`{field}`" for field in form.unique)
    return f"; {fields} come together only once in a file"


def _form(form: Form) -> Iterator[str]:
    document = form_document(form)
    names = [form.type.__name__]
    for name in names:
        definition = document["$defs"][name]
        if name != form.type.__name__:
            yield f"`{name}`: {definition.get('description', 'an object')}"
        yield _table(("Key", "Required", "Value"), _keys(definition, form.looks))
        closed = definition.get("additionalProperties") is False
        yield "Other keys are refused." if closed else "Other keys are allowed and not read."
        for value in definition["properties"].values():
            found = definition_of(value)
            names.extend(inner for inner in found if inner not in names)
    longest = max(form.good, key=lambda example: len(json.dumps(example)))
    yield f"An example:\n\n```json\n{json.dumps(longest, ensure_ascii=False, indent=2)}\n```"


def _keys(definition: dict[str, Any], looks: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    required = definition.get("required", ())
    for key, value in definition["properties"].items():
        yield f"`{key}`", "yes" if key in required else "no", type_words(value, looks)


def _measure(measure: Measure[Any]) -> Iterator[str]:
    yield f"## {measure.name}"
    yield measure.summary
    module = sys.modules.get(getattr(measure.step, "__module__", ""))
    if module is not None:
        yield from (inspect.getdoc(module) or "").replace("``", "`").split("\n\n")[1:]
    yield "Gives " + ", ".join(f"`{name}`" for name in measure.gives) + "."
    yield _table(("Worked example", "Answers"), map(_answer, measure.known))


def _answer(known: KnownAnswer) -> tuple[str, str]:
    answers = ", ".join(
        f"`{name}` {'none' if value is None else format(value, '.6g')}"
        for name, value in known.expected.items()
    )
    return known.title.replace("*", "\\*"), answers


def _suite(suite: Suite) -> Iterator[str]:
    fields = msgspec.structs.fields(suite.options)
    yield f"## {suite.kind}"
    yield suite.summary
    if isinstance(suite, ExamSuite):
        rows = ((f"`{role.name}`", role.help) for role in suite.roles)
        yield _table(("Evidence", "Holds"), rows)
    yield _table(
        ("Option", "Default", "Meaning"),
        ((f"`{field.name}`", _default_words(field), _meaning(field.type)) for field in fields),
    )
    required = [field.name for field in fields if field.required]
    if required and isinstance(suite, ExamSuite):
        yield "Its rules depend on options that have no default."
        return
    rules: tuple[Rule, ...]
    if isinstance(suite, ExamSuite):
        exam = suite.build(suite.options(), measures())
        yield f"Reads `{exam.schema}` records and is judged by:"
        rules = exam.policy().rules
    elif isinstance(suite, PackSuite):
        example = SuiteSpec(
            id=suite.kind,
            kind=suite.kind,
            weight=1.0,
            dataset="data.jsonl" if suite.scorer else None,
            source=None if suite.scorer else "another",
        )
        rules = suite.rules(example, suite.options(**{name: name for name in required}))
        named = f"`{suite.scorer}`" if suite.scorer else "none: it looks at another suite"
        yield f"A suite of a pack. Scorer when none is named: {named}."
        if not rules:
            yield "Judged by the rules that every suite of a pack has: errors, floor, regression."
            return
        yield "Besides the rules that every suite of a pack has, it is judged by:"
    else:
        raise TypeError(f"{suite.kind} is neither an exam nor a suite of a pack")
    yield _table(
        ("Rule", "What must hold", "When it does not"),
        (row for rule in rules for row in _rule(rule)),
    )


def _rule(rule: Rule, in_place_of: str | None = None) -> Iterator[tuple[str, ...]]:
    ends = {"value": "", "interval": ", whole interval"}
    end = ends.get(rule.against, f", {rule.against} end of the interval")
    effects = {"block": "fails", "hold": "holds the verdict open", "warn": "is a warning"}
    effect = f"only in place of `{in_place_of}`" if in_place_of else effects[rule.severity]
    yield f"`{rule.id}`", f"`{rule.metric}` {rule.op} {rule.bound:g}{end}", effect
    for other in rule.fallback_rules:
        yield from _rule(other, rule.id)


def _meaning(hint: Any) -> str:
    notes = getattr(hint, "__metadata__", ())
    found = [note.description for note in notes if isinstance(note, msgspec.Meta)]
    return next((text for text in found if text), "")


def _default_words(field: Any) -> str:
    if field.required:
        return "none"
    made = field.default_factory
    value = field.default if made is msgspec.NODEFAULT else made()
    if isinstance(value, msgspec.Struct):
        return f"the defaults of `{type(value).__name__}`"
    if isinstance(value, str) and "\n" in value:
        # Several lines would end the row of the table.
        return f"`{json.dumps(value)}`"
    return f"`{value}`"
