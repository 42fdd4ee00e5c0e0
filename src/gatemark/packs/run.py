"""Everything that a pack is judged by, and the account of it by suite."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gatemark.core.measurement import Evidence, EvidenceFile
from gatemark.evidence.rows import Snapshot
from gatemark.packs.answers import Answer, SuiteAnswers
from gatemark.packs.conditions import ASKED
from gatemark.packs.exam_suites import SuiteOutcome
from gatemark.packs.judge_qualification import SuiteQualification
from gatemark.packs.judge_replies import Graded
from gatemark.packs.looks import PackLook
from gatemark.packs.outages import find_outage_condition
from gatemark.packs.pack import Pack, SuiteSpec


class PackEvidence(msgspec.Struct, frozen=True):
    """Everything a pack is judged by: answers of both arms, outcomes of exams, qualified judges.

    ``baseline`` is None if there are no baseline answers; ``graded`` has the judges' replies by
    suite.
    """

    candidate: SuiteAnswers
    baseline: SuiteAnswers | None
    files: tuple[EvidenceFile, ...] = ()
    exams: dict[str, SuiteOutcome] = {}
    qualifications: dict[str, SuiteQualification] = {}
    graded: dict[str, Graded] = {}
    limit: int | None = None
    conditions: dict[str, str] = {}


def find_compared_suites(pack: Pack, gathered: PackEvidence) -> frozenset[str]:
    """Return the suites that have a baseline to regress from."""
    exams = gathered.exams
    return frozenset(
        suite.id
        for suite in pack.suites
        if (exams[suite.id].has_baseline if suite.id in exams else gathered.baseline is not None)
    )


def find_all_conditions(gathered: PackEvidence) -> dict[str, str]:
    """Return the conditions of the run, apart from missing answers."""
    arms = {"candidate": gathered.candidate, "baseline": gathered.baseline or {}}
    given = {name: why for name, why in gathered.conditions.items() if name != ASKED}
    return {**find_outage_condition(arms), **given}


def name_scorers(answers: Sequence[Answer]) -> str | None:
    """Return who scored some answers, or None if Gatemark did."""
    tools = sorted({answer.scored_by for answer in answers if answer.scored_by is not None})
    return f"scored by {', '.join(tools)}, not by Gatemark" if tools else None


def account_for_suite(
    suite: SuiteSpec, snapshot: Snapshot, gathered: PackEvidence, look: PackLook | None
) -> Evidence:
    """Return the account of a suite: items pinned by the snapshot and items answered.

    In an adaptive pack, only the items that are due by a look are pinned.
    """
    answers = gathered.candidate[suite.id]
    answered = {answer.id for answer in answers}
    due = snapshot.ids if look is None else look.due[suite.id]
    scorer = name_scorers(answers)
    return Evidence(
        received=len(answers),
        accepted=len(answers),
        rejected=0,
        usable=len(answered),
        missing=len(due - answered),
        expected=len(due),
        files=tuple(file for file in gathered.files if file.name.startswith(f"{suite.id}.")),
        checks={
            "suite": suite.id,
            "kind": suite.kind,
            "snapshot": snapshot.reference,
            **({} if scorer is None else {"scoring": scorer}),
        },
    )
