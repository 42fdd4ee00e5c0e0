"""The journey of ``gatemark score overhead``: what guards cost, judged by a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gatemark.core.canonical import json_file
from gatemark.core.errors import UsageError
from gatemark.core.progress import Progress
from gatemark.evidence.folds.run_exam import SITTING, write_sitting
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.exams.overhead.policy_file import PolicyRequest, overhead_options
from gatemark.exams.overhead.run_exam import ARM_FILES, examine_overhead
from gatemark.gate.judge_exam import Scored, judge_exam, keep
from gatemark.scorers.scorer import truncate
from gatemark.workspace import Workspace


def score_overhead(
    workspace: Workspace,
    paths: Mapping[str, str | None],
    request: PolicyRequest,
    choices: ReadingChoices,
    *,
    seal: bool = False,
    title: str | None = None,
    on_progress: Progress | None = None,
) -> Scored:
    """Prove that the arms pair, measure, judge, and seal when asked."""
    started_at = workspace.clock()
    options = overhead_options(request, started_at)
    examined = examine_overhead(paths, options, choices, on_progress=on_progress)
    roles = _roles(paths, [file.name for file in examined.evidence.files])
    scored = judge_exam(
        "overhead",
        examined,
        workspace,
        started_at=started_at,
        title=title or truncate(examined.exam.headline(examined.report)),
        kept={SITTING: write_sitting("overhead", options, choices, roles)},
    )
    if seal:
        names = [file.name for file in examined.evidence.files]
        if not names:
            raise UsageError("there is no arm file to seal")
        keep(scored, workspace, {name: name for name in names})
    return scored


def _roles(paths: Mapping[str, str | None], names: Sequence[str]) -> list[str]:
    """What each evidence file was to the exam; one file may be two arms."""
    left = {role: path for role, path in paths.items() if path is not None}
    roles = []
    for name in names:
        role = next(role for role in ARM_FILES if left.get(role) == name)
        del left[role]
        roles.append(role)
    return roles


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
    return _pretty(
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


def _pretty(document: Mapping[str, Any]) -> bytes:
    return json_file(document)
