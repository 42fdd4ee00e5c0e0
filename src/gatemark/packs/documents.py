"""The schemas of evidence, and of the documents that Gatemark reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gatemark.core.result import Result
from gatemark.evidence.exam_suite import DocumentType, ExamSuite, suites
from gatemark.evidence.json_schema import document_schema, schema_document
from gatemark.evidence.record_schemas import schemas
from gatemark.packs.judge_spec import JudgeSpec
from gatemark.packs.pack import Arms, Pack
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.packs.suites.suite import PackSuite
from gatemark.scorers.scorer import scorers
from gatemark.targets.spec import TargetSpec

_REFERENCE = "#/$defs/{name}"

DOCUMENTS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "gatemark.pack/1": (Pack, "A pack file, for editors that complete YAML."),
    "gatemark.result/1": (Result, "A sealed result."),
}


def describe_schemas() -> dict[str, str]:
    """Return each schema's name and purpose."""
    described = {schema.name: schema.summary for schema in schemas()}
    described.update({name: summary for name, (_, summary) in DOCUMENTS.items()})
    described.update({document.name: document.summary for document in _list_exam_documents()})
    return dict(sorted(described.items()))


def make_json_schema(name: str) -> dict[str, Any]:
    """Return one schema as a JSON Schema document."""
    if name in DOCUMENTS:
        noun, summary = DOCUMENTS[name]
        if noun is Pack:
            return make_pack_schema(name, summary)
        return document_schema(name, summary, noun)
    if name not in schemas():
        for document in _list_exam_documents():
            if document.name == name:
                return document_schema(name, document.summary, document.type)
    return schema_document(schemas().get(name))


def _list_exam_documents() -> Iterator[DocumentType]:
    for suite in suites():
        if isinstance(suite, ExamSuite):
            yield from suite.documents


def list_broken_plugins() -> dict[str, str]:
    """Return schema modules that cannot be loaded, and why."""
    return dict(schemas().broken)


def make_pack_schema(name: str, summary: str) -> dict[str, Any]:
    """Return the schema of ``Pack`` with the options of plugins instead of free mappings."""
    document: dict[str, Any] = dict(document_schema(name, summary, Pack))
    known = list(scorers())
    kinds = [TargetSpec, *(scorer.options for scorer in known)]
    (target, *options), definitions = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    document["$defs"] = {**definitions, **document["$defs"]}

    def properties(struct: type) -> dict[str, Any]:
        found: dict[str, Any] = document["$defs"][struct.__name__]["properties"]
        return found

    for place in (properties(Arms)["candidate"], properties(JudgeSpec)["target"]):
        _replace(place, target)
    _replace(properties(Arms)["baseline"], {"anyOf": [target, {"const": "none"}]})
    names = {"enum": [scorer.name for scorer in known]}
    _replace(properties(ScorerSpec)["name"], names)
    _replace(
        properties(SuiteSpec)["scorer"],
        {
            "anyOf": [names, {"$ref": _REFERENCE.format(name="ScorerSpec")}, {"type": "null"}],
            "default": None,
        },
    )
    _add_suite_options(document)
    document["$defs"]["ScorerSpec"]["allOf"] = [
        {
            "if": {"properties": {"name": {"const": scorer.name}}},
            "then": {"properties": {"options": schema}},
        }
        for scorer, schema in zip(known, options, strict=True)
    ]
    return document


def _add_suite_options(document: dict[str, Any]) -> None:
    known = list(suites())
    options, definitions = msgspec.json.schema_components(
        [suite.options for suite in known], ref_template=_REFERENCE
    )
    document["$defs"] = {**definitions, **document["$defs"]}
    suite = document["$defs"][SuiteSpec.__name__]
    _replace(suite["properties"]["kind"], {"enum": [each.kind for each in known]})
    suite["allOf"] = [
        {
            "if": {"properties": {"kind": {"const": each.kind}}},
            "then": {"properties": {"options": schema}},
        }
        for each, schema in zip(known, options, strict=True)
        # Options of an exam may also come from its evidence, so a pack may leave them out.
        if isinstance(each, PackSuite)
    ]


def _replace(place: dict[str, Any], schema: Mapping[str, object]) -> None:
    """Replace a schema and keep its description."""
    described = {key: place[key] for key in ("description",) if key in place}
    place.clear()
    place.update({**schema, **described})
