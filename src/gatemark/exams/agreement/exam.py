"""The agreement exam: one fold over pairs, arbitration of every row, and the gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from gatemark.core.errors import InvalidValueError, UsageError
from gatemark.core.fold import AnyMeasure
from gatemark.core.measurement import Evidence, Measurement, measured
from gatemark.core.policy import Policy, Rule, Verdict
from gatemark.core.registry import Registry
from gatemark.core.result import Figure, Matrix, Table
from gatemark.core.text import inert_cell
from gatemark.evidence.exam import (
    EvidenceRole,
    Exam,
    ExamOutcome,
    ExamReport,
    ExamRun,
    ExamSuite,
    Joined,
    NumberedRecord,
    option,
)
from gatemark.evidence.hygiene import personal_data, suspicious
from gatemark.evidence.run_exam import examine_files
from gatemark.exams.agreement.records import label_uses
from gatemark.exams.agreement.two_files import (
    AUDITOR,
    SCHOLAR,
    examine_joined,
    join_judgements,
)

if TYPE_CHECKING:
    from gatemark.exams.agreement.records import Judgement, JudgementPair, LabelUse, Opinion
    from gatemark.exams.agreement.two_files import JoinedRow

NicPolicy = Literal["strict", "accept_agreed"]

CLEAR = "clear"
HARD_FLAG = "hard_flag"
CITATION_OUT_OF_SCOPE = "citation_out_of_scope"
RETRIEVED_IDS_MISSING = "retrieved_ids_missing"


class Ruling(NamedTuple):
    """The final label of a row, and the step that gave it."""

    final: str
    why: str


def red_flag(row: JudgementPair | JoinedRow) -> str:
    """The first hard reason to reject a row, or ``clear``."""
    if (flags := row.flags) and (flags.provenance_violation or flags.constraints_mismatch):
        return HARD_FLAG
    if not (answer := row.answer_json) or not (cited := answer.citations):
        return CLEAR
    if (retrieved := row.retrieved_ids) is UNSET or retrieved is None:
        return RETRIEVED_IDS_MISSING
    if len(cited) == 1:
        return CLEAR if cited[0] in retrieved else CITATION_OUT_OF_SCOPE
    return CLEAR if set(cited).issubset(retrieved) else CITATION_OUT_OF_SCOPE


def arbitrate(scholar: str, auditor: str, flag: str, nic_policy: NicPolicy) -> Ruling:
    """Return the ruling on one row.

    1. A hard flag, or a citation outside the retrieved passages, rejects.
    2. An auditor who does not say VALID rejects (under ``accept_agreed``, two refusals agree).
    3. VALID from the auditor with VALID or NOT_IN_CONTEXT from the scholar ships.
    4. Anything else rejects.
    """
    if flag != CLEAR:
        return Ruling("REJECT", flag)
    if auditor == "ABSTAIN":
        return Ruling("REJECT", "auditor_abstain")
    if auditor != "VALID":
        if nic_policy == "accept_agreed" and auditor == scholar == "NOT_IN_CONTEXT":
            return Ruling("NOT_IN_CONTEXT", "agreed_refusal")
        return Ruling("REJECT", "auditor_veto")
    if scholar in {"VALID", "NOT_IN_CONTEXT"}:
        return Ruling("VALID", "auditor_ok")
    if scholar == "ABSTAIN":
        return Ruling("REJECT", "scholar_abstain")
    return Ruling("REJECT", "incoherent_pair")


def is_content_conflict(cell: tuple[str, str, str], ruling: Ruling) -> bool:
    """Whether a row ships although the scholar saw only a refusal in it."""
    return cell[0] == "NOT_IN_CONTEXT" and ruling.final == "VALID"


LABELS = ("VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN")
TSV_COLUMNS = ("qid", "scholar", "auditor", "final", "why")
SHOWN_ROWS = 100
ABSTAIN_SIDES = {"scholar": "first", "auditor": "second", "either": "either"}

PAIRS = "pairs"
TSV_NAME = "consistency_disagreements.tsv"
PAIR_MEASURES = ("agreement", "abstention")
LABEL_MEASURE = "label_agreement"
LABEL_MINS = ("label_agreement_min", "label_agreement_upper_min")
PANEL_MEASURE = "krippendorff"
ECHO = "both files say the same word for word, reasons included: were they judged independently?"

K = TypeVar("K")


FIRST_RULES: Final = 1
RULES: Final = 2
RulesVersion = Literal[1, 2]
"""The version of the rules: 1 had no rule on single labels, and no minimum number of items."""


class AgreementParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user may set."""

    pa_gate: Annotated[float, option("Minimum percent agreement.", low=0, high=1)] = 0.90
    kappa_gate: Annotated[
        float,
        option("Minimum kappa. Also applied to AC1 when kappa is uninformative.", low=-1, high=1),
    ] = 0.75
    abstain_gate: Annotated[
        float, option("Maximum share of rows in which either validator abstains.", low=0, high=1)
    ] = 0.02
    coverage_gate: Annotated[
        float, option("Minimum share of items that arrived complete.", low=0, high=1)
    ] = 1.0
    nic_policy: Annotated[
        NicPolicy, option("Whether two NOT_IN_CONTEXT labels reject or agree.")
    ] = "strict"
    label_gate: Annotated[
        float, option("Minimum agreement on every single label except ABSTAIN.", low=0, high=1)
    ] = 0.5
    min_items: Annotated[
        int, option("Minimum number of items that both validators labelled.", low=1)
    ] = 30

    def __post_init__(self) -> None:
        for name in ("pa_gate", "kappa_gate", "abstain_gate", "coverage_gate", "label_gate"):
            value, bottom = getattr(self, name), -1.0 if name == "kappa_gate" else 0.0
            if not bottom <= value <= 1:
                raise InvalidValueError(f"{name} must be in [{bottom:g}, 1], got {value}")
        if self.min_items < 1:
            raise InvalidValueError(f"min_items must be >= 1, got {self.min_items}")


class AgreementOptions(AgreementParameters, frozen=True, forbid_unknown_fields=True):
    """What a user may set, and the version of the rules; scoring always takes the newest."""

    rules: Annotated[
        RulesVersion, msgspec.Meta(description="Version of the rules; packs always set the newest.")
    ] = FIRST_RULES


def summary_document(
    options: AgreementOptions, report: ExamReport, evidence: Evidence, verdict: Verdict
) -> dict[str, object]:
    """Everything a script may want to know; rounded where the source rounds, exact beside it."""
    by_name = {number.name: number for number in report.measurements}
    facts = report.facts
    kappa = by_name.get("kappa")
    abstain = {
        side: _value(by_name.get(f"abstain_rate_{suffix}"))
        for side, suffix in ABSTAIN_SIDES.items()
    }
    return {
        "n": facts["n"],
        "percent_agreement": _rounded(by_name.get("percent_agreement")),
        "kappa": _rounded(kappa),
        "abstain_rate": _rounded(by_name.get("abstain_rate_first")),
        "disagreements": facts["disagreements"],
        "gates": {
            "pa": options.pa_gate,
            "kappa": options.kappa_gate,
            "abstain": options.abstain_gate,
        },
        "pass": verdict.outcome == "pass",
        "verdict": verdict.outcome,
        "blockers": list(verdict.blockers),
        "caveats": [*verdict.caveats, *_of_numbers(report.measurements)],
        "kappa_undefined_reason": kappa.reason if kappa else "the agreement measure is missing",
        "kappa_low_information": bool(kappa and "low_information" in kappa.caveats),
        "ac1": _value(by_name.get("ac1")),
        "krippendorff_alpha": _value(by_name.get("krippendorff_alpha")),
        "exact": {
            name: _value(number) for name, number in by_name.items() if number.unit == "ratio"
        },
        "intervals": {
            name: _intervals(number) for name, number in by_name.items() if number.interval
        },
        "abstain": abstain,
        "coverage_gate": options.coverage_gate,
        "label_gate": options.label_gate,
        "min_items": options.min_items,
        "labels": facts["labels"],
        "unmatched": {"scholar": 0, "auditor": 0, **facts["unmatched"]},
        "unrated": facts["unrated"],
        "missing": evidence.missing,
        "duplicates": evidence.duplicates,
        "rejected": evidence.rejected,
        "finals": facts["finals"],
        "why": facts["why"],
        "nic_policy": options.nic_policy,
        "flagged_not_rejected": facts["flagged_not_rejected"],
        "content_conflicts": facts["content_conflicts"],
        "different_evidence": facts["different_evidence"],
        "personal_data": facts["personal_data"],
        "checks": evidence.checks,
        "evidence": [
            {"name": file.name, "digest": file.digest, "bytes": file.byte_count}
            for file in evidence.files
        ],
    }


def _of_numbers(numbers: Sequence[Measurement]) -> list[str]:
    return [f"{number.name}: {caveat}" for number in numbers for caveat in number.caveats]


def _value(number: Measurement | None) -> float | None:
    return number.value if number else None


def _rounded(number: Measurement | None) -> float | None:
    value = _value(number)
    return None if value is None else round(value, 4)


def _intervals(number: Measurement) -> list[dict[str, object]]:
    intervals = [number.interval, *number.other_intervals]
    return [
        {"method": found.method, "level": found.level, "low": found.low, "high": found.high}
        for found in intervals
        if found is not None
    ]


def agreement_figures(
    pairs: Mapping[tuple[str, str], int],
    rulings: Sequence[tuple[object, tuple[str, str], int]],
    tsv: bytes,
) -> tuple[Figure, ...]:
    """Return the label matrix, the rulings, and the first disagreements."""
    counts = tuple(tuple(pairs.get((row, column), 0) for column in LABELS) for row in LABELS)
    matrix = Matrix("Scholar against auditor", "scholar", "auditor", LABELS, counts)
    finals: dict[tuple[str, str], int] = {}
    for _, ruling, count in rulings:
        finals[ruling] = finals.get(ruling, 0) + count
    ruled = Table(
        "Final arbitration",
        ("final", "why", "rows"),
        tuple((final, why, count) for (final, why), count in sorted(finals.items())),
        total_rows=len(finals),
    )
    lines = tsv.split(b"\n", SHOWN_ROWS)[:SHOWN_ROWS] if tsv else []
    shown = tuple(tuple(line.decode().split("\t")) for line in lines if line)
    disagreements = Table("Disagreements", TSV_COLUMNS, shown, total_rows=tsv.count(b"\n"))
    return (matrix, ruled, disagreements) if shown else (matrix, ruled)


class AgreementExamState(msgspec.Struct):
    """Counts of (scholar, auditor, flag) and, by shard, what must keep its order."""

    shard: int
    cells: dict[tuple[str, str, str], int] = {}
    panel: dict[tuple[str | None, ...], int] = {}
    disagreements: dict[int, bytearray] = {}
    personal: dict[int, list[tuple[str, str, str]]] = {}
    different_evidence: list[str] = []
    unmatched: dict[str, int] = {}
    unrated: dict[str, int] = {}
    echo_count: int = 0


class AgreementExam(Exam[AgreementExamState]):
    """Agreement, arbitration and hygiene over rows with two opinions."""

    schema = "gatemark.pair/1"
    form = "pair"
    one_sided_form = "judgement"
    state = AgreementExamState

    def __init__(self, options: AgreementOptions, measures: Registry[AnyMeasure]) -> None:
        self.options = options
        self._measures = measures

    def zero(self, shard: int) -> AgreementExamState:
        return AgreementExamState(shard=shard)

    def step(self, state: AgreementExamState, batch: Sequence[Any]) -> AgreementExamState:
        cells = state.cells
        batch_cells = [(row.scholar.label, row.auditor.label, red_flag(row)) for row in batch]
        for cell in batch_cells:
            cells[cell] = cells.get(cell, 0) + 1
        split = [place for place, cell in enumerate(batch_cells) if cell[0] != cell[1]]
        if split:
            lines = [self._tsv_line(batch[place].qid, batch_cells[place]) for place in split]
            state.disagreements.setdefault(state.shard, bytearray()).extend(b"".join(lines))
        reasons = [row.scholar.reason for row in batch] + [row.auditor.reason for row in batch]
        if suspicious(filter(None, reasons)):
            found = [hit for row in batch for hit in _personal_hits(row)]
            if found:
                state.personal.setdefault(state.shard, []).extend(found)
        return state

    def merge(self, left: AgreementExamState, right: AgreementExamState) -> AgreementExamState:
        return AgreementExamState(
            shard=min(left.shard, right.shard),
            cells=_added(left.cells, right.cells),
            panel=_added(left.panel, right.panel),
            disagreements={**left.disagreements, **right.disagreements},
            personal={**left.personal, **right.personal},
            different_evidence=sorted([*left.different_evidence, *right.different_evidence]),
            unmatched=_added(left.unmatched, right.unmatched),
            unrated=_added(left.unrated, right.unrated),
            echo_count=left.echo_count + right.echo_count,
        )

    def join(self, tables: Mapping[str, Sequence[NumberedRecord]]) -> Joined:
        rows, unmatched = join_judgements(tables)
        state = self.zero(-1)
        state.different_evidence = [row.qid for row in rows if not row.same_evidence]
        state.unmatched = {name: len(items) for name, items in unmatched.items()}
        state.echo_count = sum(row.is_echo for row in rows)
        names = [name for name in tables if name not in {SCHOLAR, AUDITOR}]
        if names:
            _count_panel(state, names, rows)
        return Joined(rows=rows, state=state, unmatched=unmatched)

    def policy(self) -> Policy:
        gates = self.options
        is_first = gates.rules == FIRST_RULES
        in_place_of_kappa = (
            Rule(
                "agreement.kappa/pa", "percent_agreement", ">=", gates.pa_gate, against="interval"
            ),
            Rule("agreement.kappa/ac1", "ac1", ">=", gates.kappa_gate),
        )
        later_rules = (
            # Fails when even the upper end of a label's interval is short; holds for few uses.
            Rule("agreement.label_fails", "label_agreement_upper_min", ">=", gates.label_gate),
            Rule("agreement.label", "label_agreement_min", ">=", gates.label_gate, severity="hold"),
            Rule("agreement.items", "pair_count", ">=", gates.min_items, severity="hold"),
        )
        return Policy(
            name="agreement",
            rules=(
                Rule(
                    "agreement.coverage",
                    "evidence.coverage",
                    ">=",
                    gates.coverage_gate,
                    severity="hold",
                ),
                Rule("agreement.pa", "percent_agreement", ">=", gates.pa_gate),
                Rule(
                    "agreement.kappa",
                    "kappa",
                    ">=",
                    gates.kappa_gate,
                    fallback_rules=in_place_of_kappa,
                    fallback_is_strict=not is_first,
                ),
                *(() if is_first else later_rules),
                Rule("agreement.abstain", "abstain_rate_either", "<=", gates.abstain_gate),
                Rule("agreement.flagged", "flagged_not_rejected_count", "<=", 0.0),
                Rule(
                    "hygiene.same_evidence", "different_evidence_count", "<=", 0.0, severity="hold"
                ),
                Rule("hygiene.personal_data", "personal_data_count", "<=", 0.0, severity="warn"),
            ),
            settings={
                "nic_policy": gates.nic_policy,
                **({} if is_first else {"agreement_rules": gates.rules}),
            },
        )

    def finish(self, state: AgreementExamState) -> ExamReport:
        pairs: dict[tuple[str, str], int] = {}
        for (scholar, auditor, _), count in sorted(state.cells.items()):
            pairs[scholar, auditor] = pairs.get((scholar, auditor), 0) + count
        rulings = self._rulings(state)
        personal = [hit for shard in sorted(state.personal) for hit in state.personal[shard]]
        tsv = b"".join(state.disagreements[shard] for shard in sorted(state.disagreements))
        facts: dict[str, Any] = {
            "finals": _counted(rulings, "final"),
            "why": _counted(rulings, "why"),
            "flagged_not_rejected": sum(
                count
                for (_, _, flag), ruling, count in rulings
                if flag != CLEAR and ruling.final != "REJECT"
            ),
            "content_conflicts": sum(
                count for cell, ruling, count in rulings if is_content_conflict(cell, ruling)
            ),
            "disagreements": sum(
                n for (scholar, auditor), n in pairs.items() if scholar != auditor
            ),
            "different_evidence": state.different_evidence[:SHOWN_ROWS],
            "personal_data": [
                f"{qid} ({who}: {kinds})" for qid, who, kinds in personal[:SHOWN_ROWS]
            ],
            "unmatched": state.unmatched,
            "unrated": state.unrated,
            "n": sum(pairs.values()),
        }
        uses = label_uses(pairs)
        facts["labels"] = {label: _label_facts(use) for label, use in uses.items()}
        counts: dict[str, int] = {
            "flagged_not_rejected_count": facts["flagged_not_rejected"],
            "different_evidence_count": len(state.different_evidence),
            "personal_data_count": len(personal),
        }
        numbers: list[Measurement] = []
        is_first = self.options.rules == FIRST_RULES
        for name in PAIR_MEASURES if is_first else (*PAIR_MEASURES, LABEL_MEASURE):
            numbers.extend(self._measured(name, pairs))
        if state.echo_count and state.echo_count == facts["n"]:
            numbers = [_doubted(number) for number in numbers]
        if state.panel:
            numbers.extend(self._measured(PANEL_MEASURE, state.panel))
        else:
            numbers.extend(self._measured(PANEL_MEASURE, pairs))
        numbers.extend(
            measured(name, count, n=facts["n"], direction="lower_is_better", unit="count")
            for name, count in counts.items()
            if facts["n"]
        )
        if not is_first:
            numbers = [self._without_worst(number) for number in numbers]
            numbers.append(_pair_count(facts["n"], list(uses)))
        return ExamReport(
            measurements=tuple(numbers),
            figures=agreement_figures(pairs, rulings, tsv),
            attachments={TSV_NAME: "\t".join(TSV_COLUMNS).encode() + b"\n" + tsv},
            facts=facts,
            score=next((n for n in numbers if n.name == "percent_agreement"), None),
        )

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        return summary_document(self.options, report, evidence, verdict)

    def _measured(self, name: str, counted_items: Mapping[K, int]) -> tuple[Measurement, ...]:
        """A measure over counted items; one that is not installed leaves its rules unjudged."""
        measure = self._measures.find(name, near="agreement")
        if measure is None:
            return ()
        return measure.finish(measure.step(measure.zero(), counted_items))

    def _without_worst(self, number: Measurement) -> Measurement:
        """Return the number; which label is worst matters only below the bound."""
        if number.name not in LABEL_MINS or (number.value or 0.0) < self.options.label_gate:
            return number
        return msgspec.structs.replace(number, caveats=())

    def _rulings(self, state: AgreementExamState) -> list[tuple[tuple[str, str, str], Ruling, int]]:
        return [
            (cell, arbitrate(*cell, self.options.nic_policy), count)
            for cell, count in sorted(state.cells.items())
        ]

    def _tsv_line(self, qid: str, cell: tuple[str, str, str]) -> bytes:
        ruling = arbitrate(*cell, self.options.nic_policy)
        return "\t".join((_escaped(qid), cell[0], cell[1], *ruling)).encode() + b"\n"


def _doubted(number: Measurement) -> Measurement:
    """Percent agreement of opinions that are word for word the same is no finding."""
    if number.name != "percent_agreement":
        return number
    return msgspec.structs.replace(number, caveats=(*number.caveats, ECHO))


def _pair_count(n: int, labels: Sequence[str]) -> Measurement:
    caveats = [
        f"only {name} was used: nothing shows whether another label would be" for name in labels
    ]
    return measured(
        "pair_count",
        n,
        n=n,
        direction="higher_is_better",
        unit="count",
        caveats=tuple(caveats) if len(labels) == 1 else (),
    )


def _label_facts(use: LabelUse) -> dict[str, float]:
    return {
        "scholar": use.first,
        "auditor": use.second,
        "agreed": use.agreed,
        "agreement": use.agreement,
        "low": use.interval.low,
        "high": use.interval.high,
    }


def _count_panel(
    state: AgreementExamState, names: Sequence[str], rows: Sequence[JoinedRow]
) -> None:
    """What further validators said: their labels, what they left out, what their reasons show."""
    for row in rows:
        labels = (None if record is None else record.label for record in row.others)
        opinions = (row.scholar.label, row.auditor.label, *labels)
        state.panel[opinions] = state.panel.get(opinions, 0) + 1
        for name, record in zip(names, row.others, strict=True):
            if record is None:
                state.unrated[name] = state.unrated.get(name, 0) + 1
            else:
                state.personal.setdefault(state.shard, []).extend(
                    _hits_of(row.qid, ((name, record),))
                )


def _personal_hits(row: JudgementPair | JoinedRow) -> list[tuple[str, str, str]]:
    return _hits_of(row.qid, (("scholar", row.scholar), ("auditor", row.auditor)))


def _hits_of(
    qid: str, opinions: Sequence[tuple[str, Opinion | Judgement]]
) -> list[tuple[str, str, str]]:
    hits = []
    for who, opinion in opinions:
        if opinion.reason is not UNSET and (kinds := personal_data(opinion.reason)):
            hits.append((qid, who, ", ".join(kinds)))
    return hits


def _added(left: Mapping[K, int], right: Mapping[K, int]) -> dict[K, int]:
    total = dict(left)
    for key, count in right.items():
        total[key] = total.get(key, 0) + count
    return total


def _counted(rulings: Sequence[tuple[object, Ruling, int]], field: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for _, ruling, count in rulings:
        key = getattr(ruling, field)
        total[key] = total.get(key, 0) + count
    return dict(sorted(total.items()))


def _escaped(text: str) -> str:
    return inert_cell(text.replace("\\", "\\\\"))


def examine_agreement(run: ExamRun) -> ExamOutcome:
    """Run the exam over one file of pairs, or over one file of judgements per validator."""
    if run.roles == (PAIRS,):
        return examine_files(run)
    if not {SCHOLAR, AUDITOR} <= set(run.roles) or PAIRS in run.roles:
        given = ", ".join(sorted(set(run.roles))) or "no file"
        raise UsageError(f"agreement reads {PAIRS}, or {SCHOLAR} and {AUDITOR}; got {given}")
    return examine_joined(run)


def _options_of(policy: Policy) -> dict[str, object]:
    """The options that the rules of a sealed result show."""
    bounds = {rule.id: rule.bound for rule in policy.rules}
    gates = {
        f"{name}_gate": bounds[f"agreement.{name}"]
        for name in ("pa", "kappa", "abstain", "coverage")
        if f"agreement.{name}" in bounds
    }
    return {**gates, "nic_policy": policy.settings.get("nic_policy", "strict")}


def _build(options: AgreementOptions, measures: Registry[AnyMeasure]) -> AgreementExam:
    return AgreementExam(options, measures)


SUITE = ExamSuite(
    kind="agreement",
    summary="Do two independent validators give the same label, and what ships when they do not?",
    options=AgreementOptions,
    build=_build,
    roles=(
        EvidenceRole(PAIRS, "Merged pairs, one record per question."),
        EvidenceRole(SCHOLAR, "The scholar's judgements."),
        EvidenceRole(AUDITOR, "The auditor's judgements."),
        EvidenceRole(
            "validator",
            "A further validator's judgements, for Krippendorff's alpha. Repeatable.",
            named=True,
        ),
    ),
    examine=examine_agreement,
    options_of=_options_of,
    newest_rules={"rules": RULES},
)
