"""The JSON Schema of a pack file with the options of scorers and targets, for editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gatemark.evidence.json_schema import document_schema
from gatemark.packs.pack import Arms, JudgeSpec, Pack, ScorerSpec, SuiteSpec
from gatemark.scorers.scorer import scorers
from gatemark.targets.spec import TargetSpec

_REFERENCE = "#/$defs/{name}"


def pack_schema(name: str, summary: str) -> dict[str, Any]:
    """Return the schema of ``Pack`` with what its plugins take in place of free mappings."""
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
    document["$defs"]["ScorerSpec"]["allOf"] = [
        {
            "if": {"properties": {"name": {"const": scorer.name}}},
            "then": {"properties": {"options": schema}},
        }
        for scorer, schema in zip(known, options, strict=True)
    ]
    return document


def _replace(place: dict[str, Any], schema: Mapping[str, object]) -> None:
    place.clear()
    place.update(schema)
