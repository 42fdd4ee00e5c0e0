"""The agreement exam: one fold over pairs, and arbitration of every row (gates: ``rules``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from gatemark.checks.agreement.arbitrate import CLEAR, LabelCell, Ruling, arbitrate
from gatemark.checks.agreement.count import AgreementExamState, RowExam, order_by_shard
from gatemark.checks.agreement.label_use import LABEL_MINS, label_uses
from gatemark.checks.agreement.records import ABSTAIN, AUDITOR, SCHOLAR
from gatemark.checks.agreement.rules import (
    TABLE_OPTIONS,
    AgreementOptions,
    add_next_step,
    build_agreement_policy,
    label_count,
    refuse_unused,
)
from gatemark.checks.agreement.views import (
    FINALS_COLUMNS,
    SHOWN_ROWS,
    TSV_COLUMNS,
    RowTable,
    build_agreement_summary,
    draw_agreement_figures,
    draw_flagged,
    format_names,
    label_facts,
    measure_missing_votes,
)
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import Evidence, Measurement, measured_count, rate
from gatemark.core.policy import Policy, Verdict
from gatemark.evidence.exam import ExamOutcome, ExamReport, ExamRun
from gatemark.evidence.exam_job import ExamJob, build_exam
from gatemark.evidence.exam_suite import EvidenceRole, ExamSuite
from gatemark.evidence.run_exam import examine_files

PAIRS, TABLE = "pairs", "table"
TSV_NAME = "consistency_disagreements.tsv"
FINALS_NAME = "finals.tsv"
PAIR_MEASURES = ("agreement", "abstention", "label_agreement")
PANEL_MEASURE = "krippendorff"
COPIED = "the two reasons of these rows are the same text: were they judged independently?"
K = TypeVar("K")


class AgreementExam(RowExam):
    """Agreement, arbitration and hygiene over rows with two opinions."""

    def policy(self) -> Policy:
        return build_agreement_policy(self.options)

    def finish(self, state: AgreementExamState) -> ExamReport:
        shards = [(state.names[shard], state.codes[shard]) for shard in sorted(state.codes)]
        table = RowTable(shards, self.space)
        pairs: dict[tuple[str, str], int] = {}
        for cell, count in table.counts.items():
            pairs[cell[:2]] = pairs.get(cell[:2], 0) + count
        rulings = [
            (cell, arbitrate(*cell, self.options.nic_policy, self.space), count)
            for cell, count in table.counts.items()
        ]
        facts = self._collect_facts(state, table, pairs, rulings)
        files = self._render_files(table)
        figures = draw_agreement_figures(self.space, pairs, rulings, files[TSV_NAME])
        if flagged := facts["flagged_valid"]:
            figures = (*figures, draw_flagged(flagged, facts["flagged_valid_count"]))
        numbers = self._measure_all(state, pairs, facts)
        return ExamReport(
            measurements=tuple(numbers),
            figures=figures,
            attachments=files,
            facts=facts,
            score=next((n for n in numbers if n.name == "percent_agreement"), None),
        )

    def _collect_facts(
        self,
        state: AgreementExamState,
        table: RowTable,
        pairs: Mapping[tuple[str, str], int],
        rulings: Sequence[tuple[LabelCell, Ruling, int]],
    ) -> dict[str, Any]:
        accepting, space = self.space.having("accept"), self.space

        def is_flagged_valid(cell: LabelCell) -> bool:
            return cell.flag != CLEAR and {cell.scholar, cell.auditor} <= accepting

        hits = {kind: order_by_shard(found) for kind, found in state.hits.items()}
        return {
            "n": sum(pairs.values()),
            "finals": _count_by_field(rulings, "final"),
            "why": _count_by_field(rulings, "why"),
            "shipped": sum(
                n
                for _, ruling, n in rulings
                if ruling.why in {"auditor_ok", "agreed_refusal"} and ruling.final in space.roles
            ),
            "flagged_not_rejected": sum(
                n
                for cell, ruling, n in rulings
                if cell.flag != CLEAR and ruling.final != space.rejecting
            ),
            "flagged_valid_count": sum(n for cell, _, n in rulings if is_flagged_valid(cell)),
            "flagged_valid": table.ids_where(is_flagged_valid, SHOWN_ROWS),
            "content_conflicts": sum(
                n
                for cell, ruling, n in rulings
                if space.roles[cell.scholar] == "refuse" and ruling.why == "auditor_ok"
            ),
            "disagreements": sum(n for (one, other), n in pairs.items() if one != other),
            "labels": {label: label_facts(use) for label, use in label_uses(pairs).items()},
            "roles": space.roles,
            "different_evidence": state.different_evidence[:SHOWN_ROWS],
            "different_evidence_count": len(state.different_evidence),
            "unmatched": state.unmatched,
            "unrated": state.unrated,
            "copied_reasons": state.copied_count,
            "copied_files": state.copied_files,
            "voted_rows": state.voted_count,
            "missing_votes": list(
                measure_missing_votes(state.vote_sizes, sum(pairs.values())).caveats
            ),
            "seeds": state.seeds,
            **{kind: hits.get(kind, [])[:SHOWN_ROWS] for kind in CHECKED},
            **{f"{kind}_count": len(hits.get(kind, ())) for kind in CHECKED},
        }

    def _measure_all(
        self,
        state: AgreementExamState,
        pairs: Mapping[tuple[str, str], int],
        facts: Mapping[str, Any],
    ) -> list[Measurement]:
        n = facts["n"]
        numbers: list[Measurement] = []
        for name in PAIR_MEASURES:
            found = self._measure(name, self._choose_pairs(name, pairs))
            numbers.extend(self._hide_worst_label(number) for number in found)
        if state.panel:
            numbers.extend(self._measure(PANEL_MEASURE, state.panel))
        else:
            numbers.extend(self._measure(PANEL_MEASURE, pairs))
        if n:
            numbers.extend(_count_measured(name, facts, n) for name in COUNTS)
        numbers.append(rate("ship_rate", facts["shipped"], n, direction="higher_is_better"))
        numbers.append(_measure_copied(state, n, self.options.copied_gate))
        if n:
            numbers.append(measure_missing_votes(state.vote_sizes, n))
        judged = sorted(facts["labels"].keys() - self.space.having("abstain"))
        numbers.append(label_count(judged, n))
        numbers.append(measured_count("pair_count", n, n, direction="higher_is_better"))
        return numbers

    def _choose_pairs(
        self, name: str, pairs: Mapping[tuple[str, str], int]
    ) -> Mapping[tuple[str, str], int]:
        """Return the pairs for a measure; some measures know only the built-in ABSTAIN label."""
        abstaining = self.space.having("abstain")
        if name == "agreement" or abstaining <= {ABSTAIN}:
            return pairs
        total: dict[tuple[str, str], int] = {}
        for pair, count in pairs.items():
            one, other = (ABSTAIN if label in abstaining else label for label in pair)
            total[one, other] = total.get((one, other), 0) + count
        return total

    def _render_files(self, table: RowTable) -> dict[str, bytes]:
        """Return the disagreements and the final label of every row."""
        ends, finals = [], []
        for cell in self.space.cells:
            ruling = arbitrate(*cell, self.options.nic_policy, self.space)
            ends.append("\t" + "\t".join((cell.scholar, cell.auditor, *ruling)) + "\n")
            flag = "" if cell.flag == CLEAR else cell.flag
            finals.append(ends[-1].removesuffix("\n") + f"\t{flag}\n")
        split = [place for place, cell in enumerate(self.space.cells) if cell[0] != cell[1]]
        return {
            TSV_NAME: table.write(ends, TSV_COLUMNS, split),
            FINALS_NAME: table.write(finals, FINALS_COLUMNS, range(len(finals))),
        }

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        return build_agreement_summary(self.options, report, evidence, verdict)

    def _measure(self, name: str, counted_items: Mapping[K, int]) -> tuple[Measurement, ...]:
        """Measure counted items; if the measure is not installed, its rules are not judged."""
        measure = self._measures.find(name, near="agreement")
        if measure is None:
            return ()
        return measure.finish(measure.step(measure.zero(), counted_items))

    def _hide_worst_label(self, number: Measurement) -> Measurement:
        """Return the number; its worst label is named only below the bound."""
        if number.name not in LABEL_MINS or (number.value or 0.0) < self.options.label_gate:
            return number
        return msgspec.structs.replace(number, caveats=())


CHECKED: Final = ("personal_data", "long_reason", "inexact_refusal", "vote_mismatch")
COUNTS: Final = ("flagged_valid", "different_evidence", *CHECKED)


def _count_measured(name: str, facts: Mapping[str, Any], n: int) -> Measurement:
    """Return how many rows a check found, with the first ids."""
    count = facts[f"{name}_count"]
    rows = facts[name] if name in {"flagged_valid", "inexact_refusal", "vote_mismatch"} else ()
    caveats = (format_names(rows, count),) if rows else ()
    return measured_count(f"{name}_count", count, n, caveats=caveats)


def _measure_copied(state: AgreementExamState, n: int, gate: float) -> Measurement:
    """Return how many rows were copied: those with one reason, or all if one file is the other."""
    count = n if state.copied_files else state.copied_count
    number = rate("copied_reason_rate", count, n, direction="lower_is_better")
    if state.copied_files:
        return msgspec.structs.replace(number, caveats=tuple(state.copied_files))
    if number.value is None or number.value <= gate:
        return number
    return msgspec.structs.replace(number, caveats=(COPIED,))


def _count_by_field(rulings: Sequence[tuple[object, Ruling, int]], field: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for _, ruling, count in rulings:
        key = getattr(ruling, field)
        total[key] = total.get(key, 0) + count
    return dict(sorted(total.items()))


def examine_agreement(run: ExamRun) -> ExamOutcome:
    """Run the exam over one file of pairs, one file of judgements per validator, or a table."""
    if not _is_known_form(run.roles):
        given = ", ".join(sorted(set(run.roles))) or "no file"
        raise UsageError(
            f"agreement reads {PAIRS}, or {SCHOLAR} and {AUDITOR}, or {TABLE}; got {given}"
        )
    job = ExamJob.of(run)
    exam = build_exam(job)
    if not isinstance(exam, AgreementExam):
        raise UsageError(f"suite {job.kind} does not read one-sided records")
    if run.roles == (TABLE,):
        # Imported late: only tables need it.
        from gatemark.checks.agreement.table import examine_table  # noqa: PLC0415

        return examine_table(run, exam.options)
    refuse_unused(exam.options, TABLE_OPTIONS, "pairs and judgements")
    try:
        if run.roles == (PAIRS,):
            return examine_files(run)
        # Imported late: a file of pairs needs no join.
        from gatemark.checks.agreement.join import examine_joined  # noqa: PLC0415

        return ExamOutcome(exam, *examine_joined(run, job, exam))
    except BadInputError as error:
        raise add_next_step(error, exam.options) from error


def _is_known_form(roles: Sequence[str]) -> bool:
    if len(roles) == 1:
        return roles[0] in {PAIRS, TABLE}
    return {SCHOLAR, AUDITOR} <= set(roles) and not {PAIRS, TABLE} & set(roles)


SUITE = ExamSuite(
    kind="agreement",
    summary="Do two independent validators give the same label, and what ships when they do not?",
    options=AgreementOptions,
    build=AgreementExam,
    roles=(
        EvidenceRole(PAIRS, "Merged pairs, one record per question.", alone=True),
        EvidenceRole(SCHOLAR, "The scholar's judgements."),
        EvidenceRole(AUDITOR, "The auditor's judgements."),
        EvidenceRole(
            "validator",
            "A further validator's judgements, for Krippendorff's alpha. Repeatable.",
            named=True,
        ),
        EvidenceRole(
            TABLE,
            "CSV or TSV with the labels of two or more raters: a line per item, a column per "
            "rater.",
            alone=True,
        ),
    ),
    examine=examine_agreement,
)
