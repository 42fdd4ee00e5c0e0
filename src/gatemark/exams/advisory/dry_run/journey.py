"""The whole journey of ``gatemark advisory run``: ask, write down, judge every run, summarise.

(1) Open fixtures, labels, policy, services and the folder; whatever is wrong ends here, with
nothing asked and nothing written. (2) Ask; whatever goes wrong becomes a record. (3) Write the
records. (4) Judge each run, with all others as its history. (5) Write the summaries. Stopping
before (3) writes nothing; after that the records are there and can be scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.policy import Outcome
from gatemark.evidence.exam import ExamRun, judge_exam
from gatemark.evidence.run_exam import run_exam
from gatemark.evidence.source import ReadingChoices
from gatemark.exams.advisory.dry_run.folder import (
    RUNS,
    encode_decisions,
    past_run_files,
    run_file,
    write_front,
    write_runs,
)
from gatemark.exams.advisory.dry_run.run import (
    AdvisoryChoices,
    DryRun,
    DryRuns,
    OnProgress,
    RandomBytes,
    run_advisory,
)
from gatemark.exams.advisory.exam import DECISIONS, HISTORY
from gatemark.exams.advisory.journey import (
    KIND,
    dated,
    exam_options,
    read_advisory_policy,
    write_summaries,
)
from gatemark.workspace import Workspace

BLOCKED: Final = "blocked"
WORST_FIRST: Final[tuple[Outcome, ...]] = ("fail", "inconclusive", "pass")


class DryRunOutcome(msgspec.Struct, frozen=True):
    """What a dry run came to."""

    outcome: Outcome
    summary: dict[str, Any]


def dry_run(
    workspace: Workspace,
    choices: AdvisoryChoices,
    out: Path,
    *,
    random_bytes: RandomBytes,
    on_progress: OnProgress | None = None,
) -> DryRunOutcome:
    """Ask, record, judge and write; the folder holds everything afterwards."""
    policy = None if choices.policy is None else read_advisory_policy(choices.policy)
    # A recording that is played again was not executed again: it says nothing about stability.
    earlier = [] if choices.mode == "offline_fixture" else past_run_files(out)
    asked = run_advisory(
        workspace, choices, random_bytes=random_bytes, out=out, on_progress=on_progress
    )
    files = {run.run_id: encode_decisions(run.decisions) for run in asked.runs}
    write_runs(out, asked.card, files)
    paths = {run.run_id: str(run_file(out, run.run_id)) for run in asked.runs}
    summaries = []
    for run in asked.runs:
        others = [path for run_id, path in paths.items() if run_id != run.run_id]
        summaries.append(_judged(workspace, run, out, policy, [*earlier, *others]))
    for run, summary in zip(asked.runs, summaries, strict=True):
        write_summaries(str(out / RUNS / run.run_id), summary)
    summary = overall(summaries, _caveats(asked))
    write_front(out, files[asked.runs[-1].run_id])
    write_summaries(str(out), summary)
    return DryRunOutcome(summary["verdict"], summary)


def _judged(
    workspace: Workspace,
    run: DryRun,
    out: Path,
    policy: Mapping[str, object] | None,
    history: Sequence[str],
) -> dict[str, Any]:
    started_at = workspace.clock()
    examined = run_exam(
        ExamRun(
            kind=KIND,
            options=exam_options(policy or {}),
            files=[
                (DECISIONS, str(run_file(out, run.run_id))),
                *((HISTORY, path) for path in history),
            ],
            reading=ReadingChoices(),
            engine=workspace.engine,
            expected_ids=frozenset(decision.decision_id for decision in run.decisions),
        )
    )
    scored = dated(
        judge_exam(
            KIND,
            examined,
            actor=workspace.actor,
            started_at=started_at,
            finished_at=workspace.clock(),
        )
    )
    # Where the user keeps the folder is nobody's business.
    evidence = [
        {**file, "name": str(Path(file["name"]).relative_to(out))}
        for file in scored.summary["evidence"]
    ]
    return {**scored.summary, "evidence": evidence}


def _caveats(asked: DryRuns) -> list[str]:
    found = []
    if not asked.fixtures.pinned:
        found.append("fixtures are not pinned by a manifest: one that is gone is not missed")
    silent = [lane for lane in asked.fixtures.lanes if lane not in asked.card.targets]
    if silent:
        found.append(f"lanes with fixtures and no service in this run: {', '.join(silent)}")
    if len(asked.runs) > 1:
        found.append(f"numbers are of the last run; each of {len(asked.runs)} runs was judged")
    return found


def overall(summaries: Sequence[Mapping[str, Any]], caveats: Sequence[str]) -> dict[str, Any]:
    """The last run's summary, with the verdict of the worst and the blockers of all.

    A lane is a candidate only when it is one in every run: a fault that came once came.
    """
    last = summaries[-1]
    verdict = next(word for word in WORST_FIRST if any(s["verdict"] == word for s in summaries))
    blockers = list(last["promotion"]["blockers"])
    for summary in summaries[:-1]:
        name = summary["run_ids"][0]
        blockers.extend(
            f"run {name}: {reason}"
            for reason in summary["promotion"]["blockers"]
            if reason not in blockers
        )
    lanes = {lane: _lane_over_runs(lane, summaries) for lane in last["promotion"]["lanes"]}
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


def _lane_over_runs(lane: str, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A lane's part of the last run, with the blockers of all; a candidate has none anywhere."""
    found = dict(summaries[-1]["promotion"]["lanes"][lane])
    blockers = list(found["blockers"])
    for summary in summaries[:-1]:
        own = summary["promotion"]["lanes"].get(lane, {"blockers": ["it has no records"]})
        blockers.extend(
            f"run {summary['run_ids'][0]}: {reason}"
            for reason in own["blockers"]
            if reason not in blockers
        )
    candidate = lane in summaries[-1]["promotion"]["candidate_lanes"]
    status = BLOCKED if candidate and blockers else found["status"]
    return {**found, "status": status, "blockers": blockers}
