"""``gatemark score overhead``: what guards cost, judged by a policy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from gatemark.core.canonical import json_file
from gatemark.evidence.exam import file_option, option
from gatemark.exams.overhead.exam import SUITE
from gatemark.exams.overhead.policy import Mode, ProfileName
from gatemark.exams.overhead.policy_file import PolicyRequest, overhead_options
from gatemark.exams.score import ReportFile, score_verb


class OverheadParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which profile judges, and what is changed in it."""

    budget: Annotated[
        float | None,
        option(
            "Maximum overhead as a fraction: 0.01 is one percent of perplexity or one point of "
            "accuracy (default: from the profile).",
            low=0,
            high=0.5,
            hint="; it is a fraction: 0.01 is one percent",
        ),
    ] = None
    mode: Annotated[
        Mode | None,
        option("Judge the measured value, or its whole interval (default: point)."),
    ] = None
    profile: Annotated[ProfileName | None, option("Profile to start from (default: release).")] = (
        None
    )
    policy: Annotated[str | None, file_option("YAML with a profile and overrides.")] = None
    reason: Annotated[str, option("Why a flag may loosen the profile.")] = ""
    owner: Annotated[str, option("Who answers for it.")] = ""
    evidence: Annotated[str, file_option("What it rests on.", metavar="REF")] = ""


def policy_request(parameters: OverheadParameters) -> PolicyRequest:
    """What the parameters say about the policy."""
    return PolicyRequest(
        profile=parameters.profile,
        file=parameters.policy,
        changes={"budget": parameters.budget, "mode": parameters.mode},
        reason=parameters.reason,
        owner=parameters.owner,
        evidence=parameters.evidence,
    )


def _to_options(parameters: OverheadParameters, now: datetime) -> dict[str, Any]:
    return overhead_options(policy_request(parameters), now)


def compat_document(summary: Mapping[str, Any]) -> bytes:
    """The flat fields of the known implementation's report, for tools that read those."""
    overhead = summary["guard_overhead"]
    is_ppl = overhead["basis"] == "ratio"
    messages = [error["message"] for error in overhead["errors"]]
    bare, guarded = (
        (overhead["bare_ppl"], overhead["guarded_ppl"])
        if is_ppl
        else (overhead["bare_accuracy"], overhead["guarded_accuracy"])
    )
    seeds = summary["meta"]["seeds"]
    return json_file(
        {
            "guard_overhead": {
                "bare_ppl": bare,
                "guarded_ppl": guarded,
                "overhead_ratio": overhead["overhead_ratio"],
                "overhead_percent": overhead["overhead_percent"],
                "overhead_threshold": overhead["overhead_threshold"],
                "threshold_percent": overhead["threshold_percent"],
                "evaluated": overhead["evaluated"],
                "passed": overhead["passed"],
                "checks": {"guard_overhead": overhead["passed"]},
                "messages": list(summary["blockers"]),
                "warnings": list(overhead["warnings"]),
                "errors": messages,
                "source": f"{summary['policy_provenance']['profile']}_profile",
                "mode": "bare",
                "schedule_digest": overhead["schedule_digest"],
            },
            "quality_overhead": {
                "basis": overhead["basis"],
                "value": overhead["overhead_ratio"] if is_ppl else overhead["delta_pp"],
                "kind": overhead["metric_kind"],
            },
            "validation": dict(summary["validation"]),
            "meta": {
                "seed": None if seeds is None else seeds["python"],
                "seeds": None
                if seeds is None
                else {name: seeds[name] for name in ("python", "numpy", "torch")},
                "device": summary["meta"]["device"],
            },
            "resolved_policy": summary["resolved_policy"],
            "policy_provenance": {
                "tier": summary["policy_provenance"]["profile"],
                "overrides": [o["field"] for o in summary["policy_provenance"]["overrides"]],
                "policy_digest": summary["policy_digest"],
            },
            "auto": dict(summary["auto"]),
            "policy_digest": {
                "policy_version": "gatemark.overhead-report/1",
                "tier_policy_name": summary["auto"]["tier"],
                "thresholds_hash": summary["policy_digest"],
            },
            "verdict": summary["verdict"],
        }
    )


COMPAT = ReportFile("compat", "Also write the flat fields of older reports.", compat_document)

SCORE = score_verb(
    SUITE,
    summary="Measure what guards cost and judge it by a budget.",
    help="""\
Both files are gatemark.arm/1: what the arm is, then one line per window. They must agree in
plan, seeds, device, snapshot, window ids and contents, or nothing is concluded. Perplexity
kinds are judged by the ratio of perplexities, accuracy by the points lost; gains never fail.

Exit 0 pass, 1 fail, 2 bad input, 3 could not be judged.

\b
Examples:
  gatemark score overhead --bare bare.jsonl --guarded guarded.jsonl
  gatemark score overhead --bare b.jsonl --guarded g.jsonl --mode interval -o report.html
  gatemark score overhead --bare b.jsonl --guarded g.jsonl --budget 0.02 \\
    --reason "pilot" --owner ada --evidence runs/pilot.json""",
    features=frozenset({"seal"}),
    parameters=OverheadParameters,
    to_options=_to_options,
    report_files=(COMPAT,),
)
