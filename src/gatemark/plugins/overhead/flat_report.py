"""The flat form of a report, for tools that read the fields of older reports."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gatemark.checks.score import ReportFile
from gatemark.core.canonical import json_file
from gatemark.plugins.overhead.document import OverheadReport


def render_flat_report(summary: Mapping[str, object]) -> bytes:
    """Return the flat fields of older reports, for tools that read those."""
    report = msgspec.convert(summary, OverheadReport)
    overhead, provenance, meta = report.guard_overhead, report.policy_provenance, report.meta
    is_ppl = overhead.basis == "ratio"
    seeds = meta.seeds
    return json_file(
        {
            "guard_overhead": {
                "bare_ppl": overhead.bare_ppl if is_ppl else overhead.bare_accuracy,
                "guarded_ppl": overhead.guarded_ppl if is_ppl else overhead.guarded_accuracy,
                "overhead_ratio": overhead.overhead_ratio,
                "overhead_percent": overhead.overhead_percent,
                "overhead_threshold": overhead.overhead_threshold,
                "threshold_percent": overhead.threshold_percent,
                "evaluated": overhead.evaluated,
                "passed": overhead.passed,
                "checks": {"guard_overhead": overhead.passed},
                "messages": report.blockers,
                "warnings": overhead.warnings,
                "errors": [error.message for error in overhead.errors],
                "source": f"{provenance.profile}_profile",
                "mode": "bare",
                "schedule_digest": overhead.schedule_digest,
            },
            "quality_overhead": {
                "basis": overhead.basis,
                "value": overhead.overhead_ratio if is_ppl else overhead.delta_pp,
                "kind": overhead.metric_kind,
            },
            "validation": report.validation,
            "meta": {
                "seed": seeds and seeds["python"],
                "seeds": seeds and {name: seeds[name] for name in ("python", "numpy", "torch")},
                "device": meta.device,
            },
            "resolved_policy": report.resolved_policy,
            "policy_provenance": {
                "tier": provenance.profile,
                "overrides": [override.field for override in provenance.overrides],
                "policy_digest": report.policy_digest,
            },
            "auto": report.auto,
            "policy_digest": {
                "policy_version": "gatemark.overhead-report/1",
                "tier_policy_name": report.auto.tier,
                "thresholds_hash": report.policy_digest,
            },
            "verdict": report.verdict,
        }
    )


COMPAT = ReportFile("compat", "Also write the flat fields of older reports.", render_flat_report)
