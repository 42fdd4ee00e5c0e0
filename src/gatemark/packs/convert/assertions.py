"""Assertions of promptfoo as parts of the scorer ``assertions``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gatemark.core.errors import GatemarkError
from gatemark.packs.convert.foreign_files import ForeignFolder, Unconvertible
from gatemark.packs.convert.templates import fill_variables
from gatemark.scorers.combined import ScorerPart, prepare_part

_CONTAINS: Final = ("contains", "contains-any", "contains-all")
_LISTS: Final = ("contains-any", "contains-all", "icontains-any", "icontains-all")
_COMPACT: Final = re.compile(
    r"(not-)?([a-z][a-z0-9-]*)(?:\((\d+(?:\.\d+)?)\))?(?::(.*))?", re.DOTALL
)
_CODE: Final = ("javascript:", "fn:", "eval:", "python:", "file://")
_RUBRIC: Final = ("grade:", "llm-rubric:")
_SPECIAL: Final = re.compile(r"([\\.^$|?*+()\[\]{}])")
_KNOWN: Final = frozenset(
    {*_LISTS, "contains", "equals", "icontains", "is-json", "is-refusal", "regex", "starts-with"}
)
_OTHERS: Final = frozenset(
    {
        *("answer-relevance", "classifier", "contains-html", "contains-json", "contains-sql"),
        *("contains-xml", "context-faithfulness", "context-recall", "context-relevance", "cost"),
        *("factuality", "g-eval", "is-html", "is-sql", "is-xml", "javascript", "latency"),
        *("levenshtein", "llm-rubric", "model-graded-closedqa", "model-graded-factuality"),
        *("moderation", "perplexity", "perplexity-score", "pi", "python", "rouge-n", "bleu"),
        *("select-best", "similar", "webhook", "word-count", "meteor", "ruby", "gleu"),
    }
)


def parse_assertion_text(expected: str) -> dict[str, Any]:
    """Parse an assertion in its short form, as in a CSV column: ``contains: Paris``, or a text."""
    text = expected.strip()
    if text.startswith(_CODE):
        return {"type": text.partition(":")[0].replace("file", "code file")}
    if text.startswith(_RUBRIC):
        return {"type": "llm-rubric"}
    found = _COMPACT.fullmatch(text)
    if found is None or found[2] not in _KNOWN | _OTHERS:
        return {"type": "equals", "value": expected}
    kind, value = (found[1] or "") + found[2], found[4]
    if found[2] in _LISTS:
        return {"type": kind, "value": [part.strip() for part in (value or "").split(",")]}
    return {"type": kind, "value": None if value is None else value.strip()}


def make_parts(
    asserted: Mapping[str, Any], variables: Mapping[str, Any], folder: ForeignFolder
) -> list[dict[str, Any]]:
    """Return the parts equivalent to one assertion; raise Unconvertible if there are none."""
    kind = str(asserted.get("type", ""))
    if kind == "assert-set":
        if asserted.get("threshold") is not None:
            raise Unconvertible("assert-set with a threshold")
        inner = asserted.get("assert") or []
        return [part for one in inner for part in make_parts(one, variables, folder)]
    if asserted.get("transform") is not None:
        raise Unconvertible(f"{kind} with a transform")
    try:
        value = fill_variables(folder.resolved(asserted.get("value")), variables)
    except Unconvertible as error:
        raise Unconvertible(f"{kind} ({error})") from error
    part = _convert_assertion(kind, value)
    if part is None:
        raise Unconvertible(kind or "an assertion without a type")
    weight = asserted.get("weight")
    if isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight <= 1000:
        part["weight"] = float(weight)
    elif weight is not None:
        raise Unconvertible(f"{kind} with weight {weight}")
    try:
        prepare_part(ScorerPart(part["scorer"], part.get("options", {})))
    except GatemarkError as error:
        raise Unconvertible(f"{kind} ({error})") from error
    return [part]


def _convert_assertion(kind: str, value: Any) -> dict[str, Any] | None:
    """Return the part for one kind of assertion, or None if no scorer is equivalent."""
    phrases = [_format_text(one) for one in (value if isinstance(value, list) else [value])]
    patterns = [_escape(phrase) for phrase in phrases]
    if kind == "equals":
        return _convert_equal(value)
    if kind == "is-json":
        is_plain = value in (None, "")
        return (
            _make_part("is_json")
            if is_plain
            else _make_part("json_schema", schema=_parse_schema(value))
        )
    if kind.removeprefix("i") in _CONTAINS:
        mode = "all" if kind.endswith("-all") else "any"
        return _make_part("contains", phrases=phrases, mode=mode, ignore_case=kind.startswith("i"))
    simple = {
        "not-contains": _make_part("canary", forbidden_patterns=patterns),
        "not-contains-any": _make_part("canary", forbidden_patterns=patterns),
        "not-icontains": _make_part("canary", forbidden_text=phrases),
        "not-icontains-any": _make_part("canary", forbidden_text=phrases),
        "not-regex": _make_part("canary", forbidden_patterns=phrases),
        "regex": _make_part("regex", pattern=phrases[0]),
        "starts-with": _make_part("regex", pattern=f"^{patterns[0]}"),
        "is-refusal": _make_part("refusal", expect="refusal"),
        "not-is-refusal": _make_part("refusal", expect="answer"),
    }
    return simple.get(kind)


def _convert_equal(value: Any) -> dict[str, Any] | None:
    if isinstance(value, Mapping | list):
        return _make_part("json_equal", fences=False) | {"target": value}
    if value is None:
        return None
    return _make_part("exact", strip=False) | {"target": _format_text(value)}


def _make_part(scorer: str, **options: Any) -> dict[str, Any]:
    return {"scorer": scorer, "options": options}


def _parse_schema(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise Unconvertible("is-json with a schema that is not JSON") from error


def _format_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value)


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def count_kinds(kinds: Sequence[str]) -> str:
    """Kinds with how often they occur, the most frequent first."""
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{kind} ({count})" for kind, count in ordered)
