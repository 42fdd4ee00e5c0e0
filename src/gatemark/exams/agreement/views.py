"""What reports show of the agreement exam: its figures and its JSON summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gatemark.core.figure import Figure, Matrix, Table
from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Verdict
from gatemark.evidence.exam import ExamReport

LABELS = ("VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN")
TSV_COLUMNS = ("qid", "scholar", "auditor", "final", "why")
SHOWN_ROWS = 100
ABSTAIN_SIDES = {"scholar": "first", "auditor": "second", "either": "either"}


def summary_document(
    options: Any, report: ExamReport, evidence: Evidence, verdict: Verdict
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
