"""A result as SARIF 2.1.0, so that code scanning shows its blockers alongside the change.

Passed rules are not listed. A verdict that no rule explains gets its own entry, so the file never
looks better than the result.
"""

from __future__ import annotations

from typing import Final

from gatemark import __version__
from gatemark.core.canonical import json_file
from gatemark.core.policy import Finding
from gatemark.core.result import Result
from gatemark.report import words

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_VERDICT_RULE: Final = "verdict"


def render_sarif(result: Result, source: str) -> bytes:
    """Return the SARIF log; ``source`` is the repository file that entries point to."""
    open_findings = [finding for finding in result.findings if finding.verdict != "pass"]
    entries = [
        _make_entry(
            finding.rule, _choose_level(finding, result), _format_message(finding), source, result
        )
        for finding in open_findings
    ]
    if result.verdict != "pass" and all(entry["level"] == "note" for entry in entries):
        message = "; ".join(result.blockers) or words.headline(result)
        entries.append(_make_entry(_VERDICT_RULE, "error", message, source, result))
    rules = [
        {"id": str(name), "shortDescription": {"text": f"Gatemark rule {name}"}}
        for name in dict.fromkeys(entry["ruleId"] for entry in entries)
    ]
    driver = {"name": "Gatemark", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "results": entries,
        "properties": {"verdict": result.verdict, "result_id": result.id},
    }
    return json_file({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _make_entry(
    rule: str, level: str, message: str, source: str, result: Result
) -> dict[str, object]:
    place = {"physicalLocation": {"artifactLocation": {"uri": source}, "region": {"startLine": 1}}}
    return {
        "ruleId": words.one_line(rule),
        "level": level,
        "message": {"text": words.one_line(message)},
        "locations": [place],
        # A rule of a pack is one alert, however often it fails.
        "partialFingerprints": {"gatemark/v1": f"{result.pack.name}/{rule}"},
    }


def _choose_level(finding: Finding, result: Result) -> str:
    # In a result that passes, a failed rule was replaced by its fallback, or waived.
    is_settled = result.verdict == "pass" or finding.verdict in ("waived", "soft_pass")
    if is_settled or finding.severity == "warn":
        return "note"
    return "error"


def _format_message(finding: Finding) -> str:
    word = words.VERDICT_WORDS[finding.verdict]
    return f"{word}: {finding.reason}"
