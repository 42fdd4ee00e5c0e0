"""The source document's own review checklist, one test per line of it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import msgspec

import gatemark.plugins.advisory
from gatemark.plugins.advisory.record import (
    CLOSED_FLAGS,
    DEFAULT_ACTIONS,
    SCHEMA_NAME,
    AdvisoryDecision,
)
from gatemark.plugins.advisory.record_schema import SCHEMA

from .decisions import LANE, NORMAL, UNREFERENCED, good_lane, named, numbered, summary_of

READS_FILES = {"points.py", "policy_file.py", "score.py"}
SCORING = [
    module
    for module in Path(gatemark.plugins.advisory.__file__).parent.glob("*.py")
    if module.name not in READS_FILES
]
PURE = frozenset(
    [
        "__future__",
        "array",
        "bisect",
        "collections",
        "copy",
        "dataclasses",
        "functools",
        "datetime",
        "gatemark",
        "html",
        "itertools",
        "math",
        "msgspec",
        "numpy",
        "operator",
        "re",
        "types",
        "typing",
        "xxhash",
    ]
)
METRICS = (
    "total_records",
    "records_by_input_class",
    "records_by_service",
    "confidence_bucket_counts",
    "recommendation_counts",
    "authority_flag_violation_count",
    "privacy_violation_count",
    "actual_side_effect_count",
    "agree_count",
    "disagree_count",
    "uncertain_count",
    "missing_reference_count",
    "false_positive_count",
    "false_negative_count",
    "severity_overcall_count",
    "severity_undercall_count",
    "fallback_count",
    "fallback_counts_by_kind",
    "expected_fallback_count",
    "unexpected_fallback_count",
    "npu_proof_ok_count",
    "npu_proof_missing_count",
    "npu_proof_not_applicable_count",
    "timeout_count",
)
RATES = (
    "agreement_rate",
    "uncertain_rate",
    "false_positive_rate",
    "false_negative_rate",
    "unsafe_authority_rate",
    "privacy_violation_rate",
    "unexpected_fallback_rate",
    "proof_ok_rate",
)


def test_schema_version_is_present_and_all_authority_flags_default_closed() -> None:
    (form,) = SCHEMA.forms
    fields = {field.name: field for field in msgspec.structs.fields(AdvisoryDecision)}
    assert fields["schema_version"].required
    assert all(example["schema_version"] == SCHEMA_NAME for example in form.good)
    flags = msgspec.structs.asdict(CLOSED_FLAGS)
    permissions = {name: value for name, value in flags.items() if name.startswith("can_")}
    assert len(permissions) == 9
    assert not any(permissions.values())
    assert flags["advisory_only"] is flags["requires_human_approval"] is True
    assert set(DEFAULT_ACTIONS) == {
        "record_metric",
        "compare_with_expected_label",
        "include_in_digest",
    }


def test_scoring_has_no_live_side_effects_beyond_local_report_writes(
    gatemark: Any, write_jsonl: Any, tmp_path: Path
) -> None:
    file = write_jsonl("decisions.jsonl", good_lane())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    ran = gatemark("score", "advisory", file, "--out", tmp_path / "out", "--store", tmp_path / "s")
    assert ran.code == 0
    after = {path for path in tmp_path.rglob("*") if path.is_file()}
    written = after - set(before)
    assert {path.name for path in written} == {"summary.json", "summary.md"}
    assert all(path.read_bytes() == data for path, data in before.items())
    imported = {
        name.split(".")[0]
        for module in SCORING
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        for name in _imports(node)
    }
    assert imported <= PURE


def test_unknown_metrics_are_null_and_never_a_fake_zero() -> None:
    unknown = UNREFERENCED | {"latency.total_ms": None, "confidence.score": None}
    records = numbered([unknown | {"confidence.bucket": "unknown"}] * 3)
    summary = summary_of(records)
    for name in ("agreement_rate", "false_positive_rate", "false_negative_rate"):
        assert summary["rates"][name] is None
        assert summary["reasons"][name]
    assert summary["latency"]["total_ms"]["p50"] is None
    assert summary["confidence_bucket_counts"]["unknown"] == 3
    assert summary["lanes"][LANE]["bucket_shift"] is None


def test_raw_payloads_and_private_paths_are_not_persisted(
    gatemark: Any, write_jsonl: Any, tmp_path: Path
) -> None:
    leaking: dict[str, Any] = {
        "notes": ['{"choices": [{"text": "meet at noon"}]}'],
        "source.artifact_ref": "/home/ada/private/voice.wav",
    }
    file = write_jsonl("decisions.jsonl", numbered([NORMAL, leaking]))
    report = tmp_path / "report.html"
    ran = gatemark("score", "advisory", file, "--json", "--out", tmp_path / "out", "-o", report)
    assert ran.json["privacy_violation_count"] == 1
    pages = [ran.out, ran.err, *(path.read_text() for path in (tmp_path / "out").iterdir())]
    for text in (*pages, report.read_text()):
        assert "meet at noon" not in text
        assert "/home/ada" not in text


def test_summary_metrics_include_buckets_fallbacks_proof_and_violations() -> None:
    summary = summary_of(good_lane())
    assert set(METRICS) <= set(summary)
    assert set(RATES) <= set(summary["rates"])
    latency = summary["latency"]
    for group in ("by_service", "by_input_class"):
        assert all({"p50", "p95"} <= set(times) for times in latency[group].values())
    assert set(METRICS) - {"records_by_input_class", "records_by_service"} <= set(
        summary["lanes"][LANE]
    )


def test_promotion_language_says_candidate_or_discussion_only() -> None:
    summary = summary_of(good_lane(), named())
    assert summary["promotion"]["lanes"][LANE]["status"] == "candidate for discussion"
    words = json.dumps(summary["promotion"]).lower()
    assert "no authority is granted" in words
    assert not [word for word in ("approved for", "enabled", "go live") if word in words]


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []
