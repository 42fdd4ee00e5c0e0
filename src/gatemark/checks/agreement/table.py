"""The agreement exam over a table: any number of raters, any labels, missing ratings.

A table has no answers and no reasons, so no row is arbitrated. What is judged: the agreement of all
raters, of every label and of every rater; how much is missing, and whether what is missing depends
on the label; and whether one rater copied another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import combinations
from typing import Any, Final, NamedTuple

import msgspec

from gatemark.checks.agreement.label_use import LABEL_MINS
from gatemark.checks.agreement.records import ABSTAIN
from gatemark.checks.agreement.rules import (
    MISSING_GATE,
    ROW_OPTIONS,
    AgreementOptions,
    build_chance_rules,
    build_labels_rules,
    format_labels,
    label_count,
    label_rules,
    refuse_unused,
)
from gatemark.checks.agreement.table_file import read_label_table
from gatemark.checks.agreement.views import (
    SHOWN_ROWS,
    count_lost,
    describe_verdict,
    format_names,
    list_intervals,
    read_files,
)
from gatemark.core.measurement import (
    Evidence,
    Measurement,
    measured,
    measured_count,
    rate,
    unmeasured,
)
from gatemark.core.policy import Policy, Rule, Verdict
from gatemark.core.reason import ReasonKind, find_reason
from gatemark.core.result import Figure, Table
from gatemark.core.text import inert_cell
from gatemark.evidence.exam import Exam, ExamOutcome, ExamReport, ExamRun
from gatemark.evidence.input_problems import refuse_input
from gatemark.evidence.source import digest_source, opened_sources
from gatemark.statistics.proportion import wilson_interval
from gatemark.statistics.raters import (
    COEFFICIENTS,
    MISSING,
    LabelAgreement,
    RatingTable,
    at_most_probability,
    tail_probability,
)

LEVEL: Final = 0.95
ITEMS_NAME: Final = "items.tsv"
RATER_MIN: Final = "rater_agreement_upper_min"
LOW_INFORMATION_USES: Final = 5
"""Uses of the second label per rating of an item, below which kappa says little."""
CHANCE: Final = 1e-3
"""How unlikely a pattern must be by chance to leave the verdict open."""
NEAR_COPY: Final = 0.01
"""Two raters who differ on at most this share of items may be copies."""
LABEL_FACTS: Final = ("uses", "items", "agreement", "low", "high")
"""The fields of ``LabelAgreement``, as a summary names them."""
NO_COMPARABLE_LABEL: Final = ReasonKind("no_comparable_label", "no comparable item has a label")
NO_COMPARABLE_RATER: Final = ReasonKind(
    "no_comparable_rater", "no rater can be compared with another"
)
IDENTICAL: Final = "all raters gave every item the same label: were they judged independently?"


class RatersState(msgspec.Struct):
    """The raters, and the labels of every item in their order."""

    raters: tuple[str, ...] = ()
    rows: dict[str, list[str | None]] = {}


class RaterUse(NamedTuple):
    """One rater: the items rated, those left empty, and the agreement with the others."""

    rated: int
    missing: int
    compared: int
    agreed: int
    label: str | None
    worst: LabelAgreement | None


class TableExam(Exam[RatersState]):
    """Agreement over a table of labels."""

    schema = "gatemark.pair/1"
    form = "pair"
    state = RatersState

    def __init__(self, options: AgreementOptions) -> None:
        self.options = options
        roles = options.labels or {}
        self._abstaining = {label for label, role in roles.items() if role == "abstain"} | {ABSTAIN}

    def zero(self, shard: int) -> RatersState:
        del shard
        return RatersState()

    def step(
        self, state: RatersState, batch: Sequence[tuple[str, list[str | None]]]
    ) -> RatersState:
        state.rows.update(batch)
        return state

    def merge(self, left: RatersState, right: RatersState) -> RatersState:
        return RatersState(left.raters or right.raters, {**left.rows, **right.rows})

    def policy(self) -> Policy:
        return build_table_policy(self.options)

    def finish(self, state: RatersState) -> ExamReport:
        return _Findings(state, self.options, self._abstaining).report()

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        numbers = report.by_name
        return {
            "form": "table",
            "n": report.facts["n"],
            **{name: numbers[name].value for name in COEFFICIENTS},
            "undefined": {name: str(one.reason) for name, one in numbers.items() if one.reason},
            **describe_verdict(report, verdict),
            "gates": {
                name.removesuffix("_gate"): getattr(self.options, name)
                for name in ("pa_gate", "kappa_gate", "alpha_gate", "label_gate", "abstain_gate")
            },
            **{
                name: getattr(self.options, name)
                for name in ("coverage_gate", "missing_gate", "min_items", "min_labels")
            },
            "intervals": list_intervals(report),
            **{key: value for key, value in report.facts.items() if key != "n"},
            **count_lost(evidence),
            **read_files(evidence),
        }


def build_table_policy(gates: AgreementOptions) -> Policy:
    """Return the rules for a table. Bounds are met by whole intervals, or the verdict is open."""
    rules = [
        *build_chance_rules(gates, "fleiss_kappa", "interval"),
        *label_rules(gates),
        Rule("agreement.rater", RATER_MIN, ">=", gates.label_gate, severity="hold"),
        Rule("agreement.items", "item_count", ">=", gates.min_items, severity="hold"),
        Rule("agreement.abstain", "abstain_rate_any", "<=", gates.abstain_gate),
        Rule("agreement.missing", "missing_rate", "<=", gates.missing_gate, severity="hold"),
        Rule("hygiene.selective_missing", "selective_missing_count", "<=", 0.0, severity="hold"),
        Rule("hygiene.independence", "copied_rater_count", "<=", 0.0, severity="hold"),
        *build_labels_rules(gates),
    ]
    if (least := gates.alpha_gate) is not None:
        metric = "krippendorff_alpha"
        rules.append(Rule("agreement.alpha", metric, ">=", least, against="interval"))
    settings: dict[str, Any] = {"form": "table"}
    if gates.labels:
        settings["labels"] = format_labels(gates.labels)
    for name in ("missing_text", "item_column", "raters"):
        if value := getattr(gates, name):
            settings[name] = value
    return Policy(name="agreement", rules=tuple(rules), settings=settings)


class _Findings:
    """Everything that is found in one table."""

    def __init__(self, state: RatersState, options: AgreementOptions, abstaining: set[str]) -> None:
        self._options = options
        self._raters, self._rows = state.raters, state.rows
        used = {label for row in state.rows.values() for label in row if label is not None}
        self._labels = sorted(used)
        place = {label: number for number, label in enumerate(self._labels)}
        codes = [
            [MISSING if label is None else place[label] for label in row]
            for row in state.rows.values()
        ]
        self._table = RatingTable(codes, max(1, len(self._labels)))
        self._abstaining = [place[label] for label in sorted(abstaining & used)]
        self._judged = [code for code in place.values() if code not in self._abstaining]
        # A share above the default says that raters were meant to label only a part.
        self._gaps_differ = options.missing_gate <= MISSING_GATE
        self._by_label = {
            code: found
            for code in range(len(self._labels))
            if (found := self._table.label_agreement(code, LEVEL)) is not None
        }
        self._by_rater = [self._count_rater_use(rater) for rater in range(len(self._raters))]
        self._selective = list(self._find_selective_missing())
        self._copied = list(self._find_copied_raters())

    def report(self) -> ExamReport:
        numbers, facts = self._measure_all(), self._collect_facts()
        return ExamReport(
            measurements=tuple(numbers),
            figures=self._draw_figures(facts),
            attachments={ITEMS_NAME: self._render_items()},
            facts=facts,
            score=next(one for one in numbers if one.name == "percent_agreement"),
        )

    def _measure_all(self) -> list[Measurement]:
        table, n = self._table, self._table.paired_count
        empty = int((table.codes == MISSING).sum())
        abstained = int((table.counts[:, self._abstaining].sum(axis=1) > 0).sum())
        caveats = (format_names(self._selective, len(self._selective)),) * bool(self._selective)
        copied = (format_names(self._copied, len(self._copied)),) * bool(self._copied)
        return [
            *(self._measure_coefficient(name) for name in COEFFICIENTS),
            *self._measure_worst_label(),
            self._measure_worst_rater(),
            rate("abstain_rate_any", abstained, len(self._rows), direction="lower_is_better"),
            rate("missing_rate", empty, table.codes.size, direction="lower_is_better"),
            measured_count("selective_missing_count", len(self._selective), n, caveats=caveats),
            measured_count("copied_rater_count", len(self._copied), n, caveats=copied),
            measured_count("item_count", n, n, direction="higher_is_better"),
            self._label_count(n),
        ]

    def _label_count(self, n: int) -> Measurement:
        # A label that only one rater gave to an item that no other rated shows nothing.
        judged = [self._labels[code] for code in self._judged if code in self._by_label]
        return label_count(judged, n)

    def _measure_coefficient(self, name: str) -> Measurement:
        found = self._table.estimate(COEFFICIENTS[name], LEVEL, empty_differ=self._gaps_differ)
        n = self._table.paired_count
        caveats: tuple[str, ...] = ()
        if name == "fleiss_kappa" and n and self._is_low_information():
            caveats = ("low_information",)
        if name == "percent_agreement" and n > 1 and found.estimate.value == 1.0:
            caveats = (IDENTICAL,)
        if found.estimate.value is None:
            return unmeasured(
                name,
                find_reason(found.estimate),
                n=n,
                direction="higher_is_better",
                caveats=caveats,
            )
        is_share = name == "percent_agreement"
        interval = found.interval
        if is_share:
            interval = self._table.agreement_interval(LEVEL, empty_differ=self._gaps_differ)
            caveats = (*caveats, *self._find_gap_caveats(n))
        return measured(
            name,
            found.estimate.value,
            n=n,
            direction="higher_is_better",
            interval=interval,
            other_intervals=() if found.delta is None else (found.delta,),
            caveats=caveats,
        )

    def _find_gap_caveats(self, n: int) -> Iterator[str]:
        """Say what empty cells could change, if they alone leave the verdict open."""
        gate, whole = self._options.pa_gate, self._table.agreement_interval(LEVEL)
        least = self._table.least_agreed / n if n else 1.0
        if (
            self._gaps_differ
            and whole
            and whole.low >= gate > wilson_interval(least * n, n, LEVEL)[0]
        ):
            yield (
                f"if the empty cells differed from the other labels, it would be {least:.6g}; "
                "fill them, or raise --missing-gate if they were planned"
            )

    def _is_low_information(self) -> bool:
        uses = sorted(self._table.counts.sum(axis=0).tolist())
        ratings = sum(uses) / max(1, len(self._rows))
        return len(uses) < 2 or uses[-2] < LOW_INFORMATION_USES * ratings

    def _measure_worst_label(self) -> Iterator[Measurement]:
        found = {code: one for code, one in self._by_label.items() if code in self._judged}
        for name in LABEL_MINS:
            if not found:
                yield unmeasured(name, NO_COMPARABLE_LABEL(), direction="higher_is_better")
                continue
            is_value = name == LABEL_MINS[0]
            ends = {code: one.value if is_value else one.high for code, one in found.items()}
            worst = min(ends, key=lambda code: (ends[code], found[code].high))
            words = f"worst in {self._labels[worst]}"
            yield measured(
                name,
                ends[worst],
                n=found[worst].items,
                direction="higher_is_better",
                caveats=(words,) if ends[worst] < self._options.label_gate else (),
            )

    def _measure_worst_rater(self) -> Measurement:
        found = [
            (use.worst.high, use.worst.items, f"{name} differs from the others on {use.label}")
            for name, use in zip(self._raters, self._by_rater, strict=True)
            if use.worst is not None
        ]
        if not found:
            return unmeasured(RATER_MIN, NO_COMPARABLE_RATER(), direction="higher_is_better")
        high, items, words = min(found)
        return measured(
            RATER_MIN,
            high,
            n=items,
            direction="higher_is_better",
            caveats=(words,) if high < self._options.label_gate else (),
        )

    def _count_rater_use(self, rater: int) -> RaterUse:
        table = self._table
        pairs = [
            table.pair_agreement(rater, other)
            for other in range(len(self._raters))
            if other != rater
        ]
        by_label = {
            self._labels[code]: found
            for code in self._judged
            if (found := table.rater_agreement(rater, code, LEVEL)) is not None
        }
        worst = min(by_label, key=lambda label: by_label[label].high, default=None)
        missing = int((table.codes[:, rater] == MISSING).sum())
        return RaterUse(
            rated=len(self._rows) - missing,
            missing=missing,
            compared=sum(both for both, _ in pairs),
            agreed=sum(alike for _, alike in pairs),
            label=worst,
            worst=None if worst is None else by_label[worst],
        )

    def _find_selective_missing(self) -> Iterator[str]:
        """Find raters who left items empty that others gave one label, more than by chance."""
        table, total = self._table, len(self._rows)
        tests = max(1, len(self._raters) * len(self._labels))
        for rater, name in enumerate(self._raters):
            is_empty = table.codes[:, rater] == MISSING
            empty = int(is_empty.sum())
            if not empty:
                continue
            for code, label in enumerate(self._labels):
                # Others' labels only: the rater's own ones are never on empty items.
                has = (table.counts[:, code] - (table.codes[:, rater] == code)) > 0
                both = int((has & is_empty).sum())
                chance = tail_probability(empty, int(has.sum()), both, total)
                if chance * tests < CHANCE:
                    yield f"{name} left {both} of {int(has.sum())} items with {label} empty"

    def _find_copied_raters(self) -> Iterator[str]:
        """Find two raters who hardly differ, though the next closest ones do too often for that.

        The share of equal labels of the next closest raters, at the upper end of its interval, says
        how likely two such raters differ so rarely on the items that both rated.
        """
        places = list(combinations(range(len(self._raters)), 2))
        alike = {pair: self._table.pair_agreement(*pair) for pair in places}
        others = [
            (both, same) for both, same in alike.values() if both and both - same > NEAR_COPY * both
        ]
        if not others:
            return
        closest = max(wilson_interval(same, both, LEVEL)[1] for both, same in others)
        for (first, second), (both, same) in alike.items():
            split = both - same
            if not both or split > NEAR_COPY * both:
                continue
            if at_most_probability(split, both, 1 - closest) * len(places) < CHANCE:
                how = f"differ in {split} of {both} items" if split else "never differ"
                yield f"{self._raters[first]} and {self._raters[second]} {how}"

    def _collect_facts(self) -> dict[str, Any]:
        table = self._table
        return {
            "n": table.paired_count,
            "items": len(self._rows),
            "raters": {
                name: {
                    "rated": use.rated,
                    "missing": use.missing,
                    "agreement": use.agreed / use.compared if use.compared else None,
                    "worst_label": use.label,
                    "worst_label_agreement": use.worst.value if use.worst else None,
                }
                for name, use in zip(self._raters, self._by_rater, strict=True)
            },
            "labels": {
                self._labels[code]: dict(zip(LABEL_FACTS, one, strict=True))
                for code, one in self._by_label.items()
            },
            "selective_missing": self._selective,
            "copied_raters": self._copied,
            "disagreements": sum(len(set(row) - {None}) > 1 for row in self._rows.values()),
        }

    def _draw_figures(self, facts: Mapping[str, Any]) -> tuple[Figure, ...]:
        labels = Table(
            "Agreement on each label",
            ("label", *LABEL_FACTS),
            tuple((label, *found.values()) for label, found in facts["labels"].items()),
            total_rows=len(facts["labels"]),
        )
        shown = ("rated", "missing", "agreement", "worst_label")
        raters = Table(
            "Raters",
            ("rater", "rated", "missing", "agreement with the others", "worst label"),
            tuple((name, *(use[key] for key in shown)) for name, use in facts["raters"].items()),
            total_rows=len(self._raters),
        )
        split = [
            (item, *(label or "" for label in row))
            for item, row in self._rows.items()
            if len(set(row) - {None}) > 1
        ]
        if not split:
            return (labels, raters)
        table = Table(
            "Items on which raters differ",
            ("item", *self._raters),
            tuple(split[:SHOWN_ROWS]),
            total_rows=len(split),
        )
        return (labels, raters, table)

    def _render_items(self) -> bytes:
        """Return a line per item: its ratings, the most frequent label, and all labels."""
        lines = [("item", "ratings", "majority", "share", *self._raters)]
        for item, row in self._rows.items():
            given = Counter(label for label in row if label is not None)
            label, share = _find_majority(given)
            shown = (one or "" for one in row)
            lines.append((item, str(given.total()), label, share, *shown))
        return "".join("\t".join(map(_escape_cell, line)) + "\n" for line in lines).encode()


def _find_majority(given: Mapping[str, int]) -> tuple[str, str]:
    """Return the most frequent label and its share; a tie has no label."""
    if not given:
        return "", ""
    most = max(given.values())
    first = [label for label, count in given.items() if count == most]
    return first[0] if len(first) == 1 else "", f"{most / sum(given.values()):.4f}"


def _escape_cell(text: str) -> str:
    return inert_cell(text.replace("\\", "\\\\").replace("\t", " "))


def examine_table(run: ExamRun, options: AgreementOptions) -> ExamOutcome:
    """Run the exam over one table."""
    refuse_unused(options, ROW_OPTIONS, "a table")
    choices = run.reading
    with opened_sources(run.paths, choices.limits, must_stay=True) as (source,):
        file = digest_source(source)
        found = read_label_table(source, options, choices)
    paired = {
        item for item, row in found.rows.items() if sum(label is not None for label in row) > 1
    }
    missing: Set[str] = found.rows.keys() - paired
    if run.expected_ids is not None:
        strangers = sorted(found.rows.keys() - run.expected_ids)
        refuse_input(
            [f"item {name!r} is not among the expected ids" for name in strangers], choices
        )
        missing = run.expected_ids - paired
    evidence = Evidence(
        received=found.accepted + found.rejected,
        accepted=found.accepted,
        rejected=found.rejected,
        usable=len(paired),
        missing=len(missing),
        expected=None if run.expected_ids is None else len(run.expected_ids),
        files=(file,),
        duplicates=found.duplicates,
        checks={name: how for name, how in choices.checks().items() if name in _CHECKS},
    )
    exam = TableExam(options)
    state = RatersState(found.raters, found.rows)
    return ExamOutcome(exam, exam.finish(state), evidence)


_CHECKS: Final = ("on_bad_line", "on_duplicate")
