"""``gatemark advisory run``: ask, record, judge every run, summarise.

(1) Open fixtures, labels, policy, services and the folder; any error ends here, before anything is
asked or written. (2) Ask; from here on, any error becomes a record. (3) Write the records. (4)
Judge each run, with all others as its history. (5) Write the summaries. Stopping before (3) writes
nothing; after that the records can be scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.checks.score import ScoreRequest, score_exam
from gatemark.core.policy import Outcome
from gatemark.core.result import Result
from gatemark.evidence.judge_exam import Scored
from gatemark.plugins.advisory.dry_run.ask import (
    AdvisoryChoices,
    DryRun,
    DryRuns,
    OnProgress,
    RandomBytes,
    ask_services,
)
from gatemark.plugins.advisory.dry_run.folder import (
    RUNS_FOLDER,
    build_run_path,
    encode_decisions,
    find_past_runs,
    write_front,
    write_runs,
)
from gatemark.plugins.advisory.exam import DECISIONS, HISTORY, SUITE
from gatemark.plugins.advisory.policy_file import read_advisory_policy
from gatemark.plugins.advisory.promotion import BLOCKED
from gatemark.plugins.advisory.record_rules import BREACHES
from gatemark.plugins.advisory.score import add_date, write_summaries
from gatemark.workspace import Workspace

WORST_FIRST: Final[tuple[Outcome, ...]] = ("fail", "inconclusive", "pass")


class DryRunOutcome(msgspec.Struct, frozen=True):
    """The outcome of a dry run.

    ``results`` has one for every run. ``services`` tells which lanes passed the health check.
    """

    outcome: Outcome
    summary: dict[str, Any]
    results: tuple[Result, ...] = ()
    services: dict[str, bool] = {}

    @property
    def worst(self) -> Result:
        """The result of the last run with the verdict of the whole, for the report."""
        return next(one for one in reversed(self.results) if one.verdict == self.outcome)


def dry_run(
    workspace: Workspace,
    choices: AdvisoryChoices,
    out: Path,
    *,
    random_bytes: RandomBytes,
    on_progress: OnProgress | None = None,
    seal: bool = False,
) -> DryRunOutcome:
    """Ask, record, judge and write everything to the folder.

    ``seal`` stores the result of every run, whatever its verdict.
    """
    policy = None if choices.policy is None else read_advisory_policy(choices.policy)
    # A replayed recording was not executed again, so it says nothing about stability.
    earlier = [] if choices.mode == "offline_fixture" else find_past_runs(out)
    asked = ask_services(
        workspace, choices, random_bytes=random_bytes, out=out, on_progress=on_progress
    )
    files = {run.run_id: encode_decisions(run.decisions) for run in asked.runs}
    write_runs(out, asked.card, files)
    paths = {run.run_id: str(build_run_path(out, run.run_id)) for run in asked.runs}
    judged = []
    for run in asked.runs:
        others = [path for run_id, path in paths.items() if run_id != run.run_id]
        judged.append(_judge_run(workspace, run, out, policy, [*earlier, *others]))
    summaries = [_strip_folder(scored.summary, out) for scored in judged]
    for run, summary in zip(asked.runs, summaries, strict=True):
        write_summaries(str(out / RUNS_FOLDER / run.run_id), summary)
    summary = summarize_runs(summaries, _list_caveats(asked))
    write_front(out, files[asked.runs[-1].run_id])
    write_summaries(str(out), summary)
    if seal:
        for scored in judged:
            names = [file.name for file in scored.result.evidence[0].files]
            workspace.keep(scored.result, scored.stored_files, {name: name for name in names})
    return DryRunOutcome(
        summary["verdict"],
        summary,
        tuple(scored.result for scored in judged),
        _judge_health(asked) if choices.mode == "health_only" else {},
    )


def _judge_health(asked: DryRuns) -> dict[str, bool]:
    """Return which lanes answered every probe well and asked for nothing forbidden."""
    found: dict[str, bool] = {}
    for decision in chain.from_iterable(run.decisions for run in asked.runs):
        is_well = decision.fallback.kind == "health_only" and not BREACHES.find_broken(decision)
        found[decision.input_class] = found.get(decision.input_class, True) and is_well
    return found


def _judge_run(
    workspace: Workspace,
    run: DryRun,
    out: Path,
    policy: Mapping[str, object] | None,
    history: Sequence[str],
) -> Scored:
    files = [
        (DECISIONS, str(build_run_path(out, run.run_id))),
        *((HISTORY, path) for path in history),
    ]
    expected_ids = frozenset(decision.decision_id for decision in run.decisions)
    request = ScoreRequest(files=files, expected_ids=expected_ids)
    options: dict[str, object] = {"policy": policy or {}}
    return add_date(
        score_exam(workspace, SUITE.kind, options, request, started_at=workspace.clock())
    )


def _strip_folder(summary: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Return the summary without the path of the folder, which should not leave the machine."""
    evidence = [
        {**file, "name": str(Path(file["name"]).relative_to(out))} for file in summary["evidence"]
    ]
    return {**summary, "evidence": evidence}


def _list_caveats(asked: DryRuns) -> list[str]:
    found = []
    if asked.fixtures.is_shadow:
        found.append("inputs are real ones of a shadow: nothing shows which of them were left out")
        if asked.repeated:
            found.append(f"{asked.repeated} lines repeat an input, which counts once")
    elif not asked.fixtures.pinned:
        found.append("fixtures are not pinned by a manifest: one that is gone is not missed")
    if asked.contradicted:
        named = ", ".join(asked.contradicted[:5]) + ", …" * (len(asked.contradicted) > 5)
        found.append(
            f"people label {len(asked.contradicted)} fixtures otherwise than their expected "
            f"decision, which counts: {named}"
        )
    silent = [lane for lane in asked.fixtures.lanes if lane not in asked.card.targets]
    if silent:
        found.append(f"lanes with fixtures and no service in this run: {', '.join(silent)}")
    if len(asked.runs) > 1:
        found.append(f"numbers are of the last run; each of {len(asked.runs)} runs was judged")
    return found


def summarize_runs(
    summaries: Sequence[Mapping[str, Any]], caveats: Sequence[str]
) -> dict[str, Any]:
    """Return the last run's summary, with the worst verdict and the blockers of all runs.

    A lane is a candidate only if it is one in every run.
    """
    last = summaries[-1]
    verdict = next(word for word in WORST_FIRST if any(s["verdict"] == word for s in summaries))
    blockers = _join_blockers(summaries, lambda promotion: promotion["blockers"])
    lanes = {lane: _judge_lane_over_runs(lane, summaries) for lane in last["promotion"]["lanes"]}
    promotion = {
        **last["promotion"],
        "blockers": blockers,
        "caveats": [*last["promotion"]["caveats"], *caveats],
        "candidate_lanes": [
            lane for lane in last["promotion"]["candidate_lanes"] if not lanes[lane]["blockers"]
        ],
        "lanes": lanes,
    }
    return {
        **last,
        "promotion": promotion,
        "verdict": verdict,
        "pass": verdict == "pass",
        "judged_runs": [
            {
                "run_id": summary["run_ids"][0],
                "verdict": summary["verdict"],
                "blockers": len(summary["promotion"]["blockers"]),
            }
            for summary in summaries
        ],
    }


def _judge_lane_over_runs(lane: str, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a lane's part of the last run, with the blockers of all; a candidate has none."""
    absent = {"blockers": ["it has no records"]}
    last = summaries[-1]["promotion"]
    found = last["lanes"][lane]
    blockers = _join_blockers(
        summaries, lambda promotion: promotion["lanes"].get(lane, absent)["blockers"]
    )
    status = BLOCKED if lane in last["candidate_lanes"] and blockers else found["status"]
    return {**found, "status": status, "blockers": blockers}


def _join_blockers(
    summaries: Sequence[Mapping[str, Any]], of: Callable[[Mapping[str, Any]], list[str]]
) -> list[str]:
    """Return the blockers of the last run, and what further ones the others have."""
    found = list(of(summaries[-1]["promotion"]))
    for summary in summaries[:-1]:
        own = [reason for reason in of(summary["promotion"]) if reason not in found]
        found += [f"run {summary['run_ids'][0]}: {reason}" for reason in own]
    return found
