"""A run of a pack, by phase: opened, then answered.

A run is opened from a pack file (``run_pack``, ``matrix``), from a result and a pack file
(``gate``), or from a result alone (``stored_run``). ``session`` asks who answers and grades,
``judge`` decides, ``seal`` stores the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.measurement import Evidence, EvidenceFile
from gatemark.core.policy import Waiver
from gatemark.core.result import AnswerTime, AssetRef
from gatemark.packs.answers import Answer, SuiteAnswers
from gatemark.packs.arm_answers import ArmAnswers
from gatemark.packs.conditions import ASKED
from gatemark.packs.exam_suites import SuiteOutcome
from gatemark.packs.judge_qualification import SuiteQualification
from gatemark.packs.judge_replies import Graded
from gatemark.packs.looks import PackLook, plan_looks
from gatemark.packs.margins import choose_regression_modes
from gatemark.packs.outages import find_outage_condition
from gatemark.packs.pack import Pack
from gatemark.packs.pack_file import BASELINE, CANDIDATE, OpenPack
from gatemark.packs.suite_spec import SuiteSpec


class Claims(msgspec.Struct, frozen=True):
    """What a result says on somebody's word, besides its evidence; no verdict rests on it."""

    names: Mapping[str, AssetRef] = {}
    """The registered version that an arm is, if the user vouches for it."""
    baseline_how: str | None = None
    """How a baseline other than the pack's own was chosen."""
    stated_time: AnswerTime | None = None
    """When recorded answers were given, as the user states for answers that do not say."""
    earlier_time: AnswerTime | None = None
    """What an earlier result says about answers that lack it themselves."""
    earlier_reuse: Mapping[str, str] = {}
    """What an earlier result says about answers that were reused."""
    judged_again: str | None = None
    """The result whose evidence is judged by another pack."""
    cell: str | None = None
    """Which candidate of a matrix was judged."""


class Run(msgspec.Struct, frozen=True):
    """An opened pack with the exams over its evidence files, and how it is to be run."""

    opened: OpenPack
    started_at: datetime
    exams: Mapping[str, SuiteOutcome] = {}
    limit: int | None = None
    """How many items of each suite are asked; None for all."""
    waivers: tuple[Waiver, ...] = ()
    claims: Claims = Claims()

    @property
    def pack(self) -> Pack:
        """The pack that is run."""
        return self.opened.pack

    def list_compared_suites(self, *, has_baseline: bool) -> frozenset[str]:
        """Return the suites that have a baseline to regress from."""
        exams = self.exams
        return frozenset(
            suite.id
            for suite in self.pack.suites
            if (exams[suite.id].has_baseline if suite.id in exams else has_baseline)
        )

    def plan_looks(self, *, has_baseline: bool) -> tuple[PackLook, ...]:
        """Return the looks at which an adaptive pack can be decided; a limited run has none."""
        if self.limit is not None:
            return ()
        compared = self.list_compared_suites(has_baseline=has_baseline)
        return plan_looks(self.opened, choose_regression_modes(self.pack), compared)


class AnsweredRun(msgspec.Struct, frozen=True):
    """A run with everything it is judged by: answers of both arms, qualified judges, conditions."""

    run: Run
    arms: Mapping[str, ArmAnswers]
    qualifications: Mapping[str, SuiteQualification] = {}
    conditions: Mapping[str, str] = {}
    """How the arms were called, where that affects the verdict."""
    answer_time: AnswerTime | None = None
    """When the candidate answered, if that is known."""

    @property
    def candidate(self) -> SuiteAnswers:
        """The candidate's answers; a pack without targets has none."""
        return self.arms[CANDIDATE].answers if CANDIDATE in self.arms else {}

    @property
    def baseline(self) -> SuiteAnswers | None:
        """The baseline's answers, or None if there is nothing to compare with."""
        return self.arms[BASELINE].answers if BASELINE in self.arms else None

    @property
    def graded(self) -> Mapping[str, Graded]:
        """The judges' replies about the candidate's answers, by suite."""
        return self.arms[CANDIDATE].graded if CANDIDATE in self.arms else {}

    @property
    def compared(self) -> frozenset[str]:
        """The suites that have a baseline to regress from."""
        return self.run.list_compared_suites(has_baseline=BASELINE in self.arms)

    @property
    def looks(self) -> tuple[PackLook, ...]:
        """The looks at which an adaptive pack can be decided."""
        return self.run.plan_looks(has_baseline=BASELINE in self.arms)

    def find_conditions(self) -> dict[str, str]:
        """Return every condition of the run; which calls could not be made, the answers say."""
        arms = {CANDIDATE: self.candidate, BASELINE: self.baseline or {}}
        given = {name: why for name, why in self.conditions.items() if name != ASKED}
        return {**find_outage_condition(arms), **given}

    def select_due(self, look: PackLook) -> AnsweredRun:
        """Return what is available at a look: answers to the items that are due by then."""
        seen = {
            arm: msgspec.structs.replace(
                given,
                answers={
                    suite: tuple(a for a in answers if a.id in look.due[suite])
                    if suite in look.due
                    else answers
                    for suite, answers in given.answers.items()
                },
            )
            for arm, given in self.arms.items()
        }
        return msgspec.structs.replace(self, arms=seen)

    def list_line_files(self) -> tuple[EvidenceFile, ...]:
        """Return the files of answers that a result of this run stores."""
        return tuple(
            EvidenceFile(name, digest_bytes(data), len(data))
            for arm, answers in self.arms.items()
            for name, data in answers.list_line_files(arm).items()
        )

    def account_for_answers(self, look: PackLook | None) -> tuple[Evidence, ...]:
        """Return the account of every suite whose items are answered.

        In an adaptive pack, only the items that are due by a look are pinned.
        """
        files = self.list_line_files()
        return tuple(
            self._account_for_suite(suite, files, look)
            for suite in self.run.pack.suites
            if suite.dataset is not None
        )

    def _account_for_suite(
        self, suite: SuiteSpec, files: Sequence[EvidenceFile], look: PackLook | None
    ) -> Evidence:
        snapshot = self.run.opened.snapshots[suite.id]
        answers = self.candidate[suite.id]
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
            files=tuple(file for file in files if file.name.startswith(f"{suite.id}.")),
            checks={
                "suite": suite.id,
                "kind": suite.kind,
                "snapshot": snapshot.reference,
                **({} if scorer is None else {"scoring": scorer}),
            },
        )


def name_scorers(answers: Sequence[Answer]) -> str | None:
    """Return who scored some answers, or None if Gatemark did."""
    tools = sorted({answer.scored_by for answer in answers if answer.scored_by is not None})
    return f"scored by {', '.join(tools)}, not by Gatemark" if tools else None
