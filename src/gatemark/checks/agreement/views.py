"""Views of an agreement exam for reports and scripts: summary, figures and row tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from gatemark.checks.agreement.arbitrate import LabelCell, LabelSpace, Ruling
from gatemark.checks.agreement.label_use import LabelUse
from gatemark.checks.agreement.rules import AgreementOptions
from gatemark.core.measurement import Evidence, Measurement, measured_count
from gatemark.core.policy import Verdict
from gatemark.core.result import Figure, Matrix, Table
from gatemark.core.text import inert_cell
from gatemark.evidence.exam import ExamReport

SHOWN_ROWS: Final = 100
FINALS_COLUMNS: Final = ("qid", "scholar", "auditor", "final", "why", "flag")
TSV_COLUMNS: Final = FINALS_COLUMNS[:-1]
_SHOWN_GATES: Final = (
    *("coverage_gate", "label_gate", "min_items", "flagged_gate"),
    *("ship_gate", "copied_gate", "min_labels"),
)
_SHOWN_FACTS: Final = (
    *("flagged_not_rejected", "flagged_valid", "content_conflicts"),
    *("different_evidence", "copied_reasons", "personal_data"),
)
ABSTAIN_SIDES: Final = {"scholar": "first", "auditor": "second", "either": "either"}


def build_agreement_summary(
    options: AgreementOptions, report: ExamReport, evidence: Evidence, verdict: Verdict
) -> dict[str, object]:
    """Return the JSON summary, with rounded and exact numbers."""
    by_name, facts = report.by_name, report.facts
    kappa = by_name.get("kappa")
    return {
        "n": facts["n"],
        "percent_agreement": _round_value(by_name.get("percent_agreement")),
        "kappa": _round_value(kappa),
        "abstain_rate": _round_value(by_name.get("abstain_rate_first")),
        "disagreements": facts["disagreements"],
        "gates": {
            "pa": options.pa_gate,
            "kappa": options.kappa_gate,
            "abstain": options.abstain_gate,
        },
        **describe_verdict(report, verdict),
        "kappa_undefined_reason": _explain_undefined(kappa),
        "kappa_low_information": bool(kappa and "low_information" in kappa.caveats),
        "ac1": _read_value(by_name.get("ac1")),
        "krippendorff_alpha": _read_value(by_name.get("krippendorff_alpha")),
        "exact": {
            name: _read_value(number) for name, number in by_name.items() if number.unit == "ratio"
        },
        "intervals": list_intervals(report),
        "abstain": {
            side: _read_value(by_name.get(f"abstain_rate_{suffix}"))
            for side, suffix in ABSTAIN_SIDES.items()
        },
        **{name: getattr(options, name) for name in _SHOWN_GATES},
        "labels": facts["labels"],
        "roles": facts["roles"],
        "unmatched": {"scholar": 0, "auditor": 0, **facts["unmatched"]},
        "unrated": facts["unrated"],
        **count_lost(evidence),
        "finals": facts["finals"],
        "why": facts["why"],
        "nic_policy": options.nic_policy,
        **{name: facts[name] for name in _SHOWN_FACTS},
        "long_reasons": facts["long_reason"],
        "refusal_token": {"token": options.refusal_token, "rows": facts["inexact_refusal"]},
        "votes": {
            "rows": facts["voted_rows"],
            "mismatches": facts["vote_mismatch"],
            "missing": facts["missing_votes"],
        },
        "seeds": facts["seeds"],
        **read_files(evidence),
    }


def describe_verdict(report: ExamReport, verdict: Verdict) -> dict[str, object]:
    """Return the keys about the verdict."""
    of_numbers = [f"{one.name}: {caveat}" for one in report.measurements for caveat in one.caveats]
    return {
        "pass": verdict.outcome == "pass",
        "verdict": verdict.outcome,
        "blockers": list(verdict.blockers),
        "caveats": [*verdict.caveats, *of_numbers],
    }


def list_intervals(report: ExamReport) -> dict[str, object]:
    """Return every interval of each number that has one."""
    return {
        number.name: [
            {"method": end.method, "level": end.level, "low": end.low, "high": end.high}
            for end in (number.interval, *number.other_intervals)
        ]
        for number in report.measurements
        if number.interval
    }


def count_lost(evidence: Evidence) -> dict[str, object]:
    """Return the keys about evidence that was not used."""
    return {name: getattr(evidence, name) for name in ("missing", "duplicates", "rejected")}


def read_files(evidence: Evidence) -> dict[str, object]:
    """Return the keys about the files, and how they were read."""
    files = [
        {"name": file.name, "digest": file.digest, "bytes": file.byte_count}
        for file in evidence.files
    ]
    return {"checks": evidence.checks, "evidence": files}


def _read_value(number: Measurement | None) -> float | None:
    return number.value if number else None


def _explain_undefined(kappa: Measurement | None) -> str | None:
    if kappa is None:
        return "the agreement measure is missing"
    return None if kappa.reason is None else str(kappa.reason)


def _round_value(number: Measurement | None) -> float | None:
    value = _read_value(number)
    return None if value is None else round(value, 4)


def draw_agreement_figures(
    space: LabelSpace,
    pairs: Mapping[tuple[str, str], int],
    rulings: Sequence[tuple[LabelCell, Ruling, int]],
    tsv: bytes,
) -> tuple[Figure, ...]:
    """Return the label matrix, the rulings, and the first disagreements."""
    labels = space.labels
    counts = tuple(tuple(pairs.get((row, column), 0) for column in labels) for row in labels)
    matrix = Matrix("Scholar against auditor", "scholar", "auditor", labels, counts)
    finals: dict[Ruling, int] = {}
    for _, ruling, count in rulings:
        finals[ruling] = finals.get(ruling, 0) + count
    ruled = Table(
        "Final arbitration",
        ("final", "why", "rows"),
        tuple((final, why, count) for (final, why), count in sorted(finals.items())),
        total_rows=len(finals),
    )
    lines = tsv.split(b"\n", SHOWN_ROWS + 1)[1 : SHOWN_ROWS + 1]
    shown = tuple(tuple(line.decode().split("\t")) for line in lines if line)
    disagreements = Table("Disagreements", TSV_COLUMNS, shown, total_rows=tsv.count(b"\n") - 1)
    return (matrix, ruled, disagreements) if shown else (matrix, ruled)


def draw_flagged(ids: Sequence[str], total: int) -> Figure:
    """Return the ids of flagged rows that both validators accepted."""
    return Table(
        "Flagged rows that both validators accepted",
        ("qid",),
        tuple((name,) for name in ids),
        total_rows=total,
    )


def label_facts(use: LabelUse) -> dict[str, float]:
    """Return how both sides used one label."""
    return {
        "scholar": use.first,
        "auditor": use.second,
        "agreed": use.agreed,
        "agreement": use.agreement,
        "low": use.interval.low,
        "high": use.interval.high,
    }


def measure_missing_votes(sizes: Mapping[str, Mapping[int, int]], n: int) -> Measurement:
    """Return how many opinions have fewer votes than others of their side.

    ``sizes`` has, by side, the number of rows by their number of votes. A side without votes is
    not asked.
    """
    count, words = 0, []
    for who, voted in sorted(sizes.items()):
        by_size = {0: n - sum(voted.values()), **voted}
        rows = {size: by_size[size] for size in sorted(by_size) if by_size[size]}
        if len(rows) > 1:
            count += n - rows[max(rows)]
            each = ", ".join(f"{size} votes in {found} rows" for size, found in rows.items())
            words.append(f"{who} has {each}")
    return measured_count("missing_vote_count", count, n, caveats=tuple(words))


NAMES_SHOWN: Final = 5


def format_names(names: Sequence[str], total: int) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(names[:NAMES_SHOWN])
    return shown if total <= NAMES_SHOWN else f"{shown} and {total - NAMES_SHOWN} more"


Codes = npt.NDArray[np.uint16]
Places = npt.NDArray[np.int64]
_NEWLINE: Final = ord("\n")
_MAY_RUN: Final = np.array([chr(code) in "=+-@" or code == 0xEF for code in range(256)])
"""First bytes of ids that may need a mark before them; 0xEF begins the wide signs."""


class RowTable:
    """The ids and codes of all rows in order, by shard.

    A code stands for both labels of a row and its flag, so a row takes two bytes and its id.
    """

    def __init__(
        self, shards: Sequence[tuple[bytes | bytearray, bytes | bytearray]], space: LabelSpace
    ) -> None:
        self._shards = [
            (names, np.frombuffer(codes, dtype="<u2")) for names, codes in shards if codes
        ]
        self._space = space

    @cached_property
    def counts(self) -> dict[LabelCell, int]:
        """The number of rows in each cell that has any, in the order of the cells."""
        total = np.zeros(len(self._space.cells), dtype=np.int64)
        for _, codes in self._shards:
            total += np.bincount(codes, minlength=total.size)
        return {self._space.cells[code]: int(total[code]) for code in np.flatnonzero(total)}

    def ids_where(self, wanted: Callable[[LabelCell], bool], limit: int) -> list[str]:
        """Return the first ids whose cell is wanted."""
        codes = [code for code, cell in enumerate(self._space.cells) if wanted(cell)]
        found: list[str] = []
        for names, _, places in self._choose_rows(codes):
            if limit > len(found):
                ids = names.split(b"\n")
                found.extend(ids[place].decode() for place in places[: limit - len(found)].tolist())
        return found

    def write(self, line_ends: Sequence[str], header: Sequence[str], codes: Sequence[int]) -> bytes:
        """Return a table with one line for each row that has one of the codes.

        A line is the id followed by the text of its code in ``line_ends``.
        """
        ends = [end.encode() for end in line_ends]
        stream = BytesIO()
        stream.write("\t".join(header).encode() + b"\n")
        for names, found, places in self._choose_rows(codes):
            ids = _escape_names(names).split(b"\n")
            chosen = map(ids.__getitem__, places.tolist())
            pairs = zip(chosen, map(ends.__getitem__, found[places].tolist()), strict=True)
            stream.writelines(chain.from_iterable(pairs))
        return stream.getvalue()

    def _choose_rows(self, codes: Sequence[int]) -> Iterator[tuple[bytes, Codes, Places]]:
        """Yield the ids, the codes and the places of the chosen rows of each shard that has any."""
        is_wanted = np.zeros(len(self._space.cells), dtype=np.bool_)
        is_wanted[list(codes)] = True
        for names, found in self._shards:
            places = np.flatnonzero(is_wanted[found])
            if places.size:
                yield bytes(names), found, places


def _escape_names(names: bytes) -> bytes:
    """Return lines of ids as cells that a spreadsheet does not run; most need no change."""
    signs = np.frombuffer(b"\n" + names, dtype=np.uint8)
    first = signs[1:][signs[:-1] == _NEWLINE]
    if b"\\" not in names and not _MAY_RUN[first].any():
        return names
    ids = names.decode().removesuffix("\n").split("\n")
    return "".join(inert_cell(name.replace("\\", "\\\\")) + "\n" for name in ids).encode()
