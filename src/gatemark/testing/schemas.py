"""The check that every record schema passes: examples, types and JSON Schema agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

import msgspec

from gatemark.core.record import Form, Problem, RecordSchema, Remark
from gatemark.evidence.diagnose import diagnose
from gatemark.evidence.json_schema import schema_document
from gatemark.evidence.shape import shape_of

MAX_DEPTH = 64


def check_schema(schema: RecordSchema) -> None:
    """Raise AssertionError unless ``schema`` follows the contract of schemas.

    Every form needs good and bad examples. Good ones must decode, be recognised by their keys and
    survive a round trip; bad ones must be refused at the path they name. The JSON Schema document
    must be valid and plain JSON. If the schema has rules over whole files, good files must pass and
    bad files must be refused on the line and by the rule they name. Earlier versions are checked in
    the same way.
    """
    if not schema.forms:
        raise AssertionError(f"{schema.name} has no forms")
    for form in schema.forms:
        _check_form(schema, form)
    json.loads(json.dumps(schema_document(schema), allow_nan=False))
    if schema.across is not None:
        _check_files(schema)
    for dialect in schema.older:
        for records in dialect.schema.good_files:
            if not dialect.accepts(records[0]):
                raise AssertionError(f"{schema.name}: an older file is not recognised")
        check_schema(dialect.schema)


def _check_files(schema: RecordSchema) -> None:
    if not schema.good_files or not schema.bad_files:
        raise AssertionError(f"{schema.name} needs good and bad files")
    for records in schema.good_files:
        for remark in run_file_rules(schema, records):
            if remark.grade == "error":
                raise AssertionError(f"{schema.name}: a good file is refused: {remark.message}")
    for bad in schema.bad_files:
        if schema.file_rules and bad.rule not in schema.file_rules:
            raise AssertionError(f"{schema.name}: rule {bad.rule} is not among the rules of a file")
        found = {
            (remark.line, remark.rule)
            for remark in run_file_rules(schema, bad.records)
            if remark.grade == "error"
        }
        if (bad.line, bad.rule) not in found:
            raise AssertionError(
                f"{schema.name}: {bad.title!r} must fail on line {bad.line} by {bad.rule}, "
                f"got {sorted(found) or 'no remark at all'}"
            )


def run_file_rules(schema: RecordSchema, records: Iterable[object]) -> list[Remark]:
    """Return what the file rules say about these records."""
    if schema.across is None:
        return []
    rules = schema.across()
    shape = shape_of(schema)
    typed = [shape.decode(json.dumps(record).encode()) for record in records]
    return [*rules.see(range(1, len(typed) + 1), typed), *rules.end()]


def _check_form(schema: RecordSchema, form: Form) -> None:
    place = f"{schema.name} ({form.name})"
    if not form.good or not form.bad:
        raise AssertionError(f"{place} needs good and bad examples")
    if form.identity and form.identity not in form.type.__struct_fields__:
        raise AssertionError(f"{place} has no field {form.identity!r}, which is its identity")
    if strange := set(form.unique or ()) - set(form.type.__struct_fields__):
        raise AssertionError(f"{place} has no field {sorted(strange)[0]!r}, which must be unique")
    _check_nothing_is_added(place, form.type)
    for example in form.good:
        _check_good(place, schema, form, example)
    for bad in form.bad:
        found = _find_problems(form, bad.record)
        if not any(problem.path == bad.path for problem in found):
            listed = ", ".join(f"{p.path}: {p.message}" for p in found) or "no problem at all"
            raise AssertionError(f"{place}: {bad.title!r} must fail at {bad.path}, got {listed}")


def _check_nothing_is_added(place: str, record_type: type[msgspec.Struct]) -> None:
    """Check that encoding a record adds no keys that its line did not have.

    The check for repeated keys counts colons, and added keys would mislead it.
    """
    pending = [msgspec.inspect.type_info(record_type)]
    seen: set[type] = set()
    while pending:
        info = pending.pop()
        pending.extend(_list_inner_types(info))
        if not isinstance(info, msgspec.inspect.StructType) or info.cls in seen:
            continue
        seen.add(info.cls)
        pending.extend(field.type for field in info.fields)
        if info.cls.__struct_config__.omit_defaults:
            continue
        filled = [
            field.name
            for field in info.fields
            if field.default_factory is not msgspec.NODEFAULT
            or field.default not in (msgspec.NODEFAULT, msgspec.UNSET)
        ]
        if filled:
            raise AssertionError(
                f"{place}: {info.cls.__name__}.{filled[0]} has a default that would be written; "
                "use UNSET, or omit_defaults"
            )


def _list_inner_types(info: msgspec.inspect.Type) -> list[msgspec.inspect.Type]:
    match info:
        case msgspec.inspect.UnionType():
            return list(info.types)
        case msgspec.inspect.DictType():
            return [info.key_type, info.value_type]
        case msgspec.inspect.CollectionType():
            return [info.item_type]
        case msgspec.inspect.TupleType():
            return list(info.item_types)
        case msgspec.inspect.Metadata():
            return [info.type]
        case _:
            return []


def _check_good(
    place: str, schema: RecordSchema, form: Form, example: Mapping[str, object]
) -> None:
    if found := _find_problems(form, example):
        raise AssertionError(f"{place}: a good example is refused: {found[0].message}")
    if schema.form_of(example) is not form:
        raise AssertionError(f"{place}: a good example is not recognised by its keys")
    record = msgspec.convert(example, form.type)
    again: Callable[[bytes], object] = msgspec.json.Decoder(form.type).decode
    if again(msgspec.json.encode(record)) != record:
        raise AssertionError(f"{place}: a good example does not survive a round trip")


def _find_problems(form: Form, record: object) -> tuple[Problem, ...]:
    return diagnose(json.dumps(record).encode(), form.strictest, max_depth=MAX_DEPTH)
