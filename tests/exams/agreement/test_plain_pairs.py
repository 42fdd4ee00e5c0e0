"""Merged pairs counted by column give the same result, and the same errors, as records."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import GatemarkError
from gatemark.evidence import fold_shard
from gatemark.evidence.engines.local import LocalEngine
from gatemark.evidence.exam import ExamRun
from gatemark.evidence.reading_choices import Limits, ReadingChoices
from gatemark.evidence.run_exam import run_exam
from gatemark.exams.agreement.exam import AgreementExam
from gatemark.exams.agreement.plain_pairs import PairColumns
from gatemark.statistics import contingency

Both = Callable[..., tuple[Any, Any, int]]
LABELS = ("VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN")
COPIED = "the claim is on page one of the manual"
REASONS = (
    COPIED,
    COPIED.title() + "!",
    "cites page 12 of the manual",
    "",
    "short",
    "die Größe stimmt nicht überein",
    "call 030 1234 56789 for more",
    "row 1234567, part 8",
    "mail to someone@example.org",
    "ssn 123-45-6789 is there",
    "token ghp_0123456789abcdefABCDEF",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN",
    "provenance-of-the-claim-is-unclear",
    "x" * 600,
    "ü" * 400,
)
RARE_REASONS = ('he said "no" to it', "a tab\there", "a slash \\ here", "\u2028 line", "\x7f sign")
CLAIMS = ("The tea is served at four.", "not in context", "Not in context.", "", "Paris", None)
ID_FORMS = ("Q{:04d}", "{}", "größe-{}", "=1+{}", "\uff1d{}", "long-" * 13 + "{}")


def outcome_of(path: Path, **options: Any) -> tuple[Any, ...] | str:
    run = ExamRun(
        kind="agreement",
        reading=options.pop("reading", ReadingChoices()),
        expected_ids=options.pop("expected_ids", None),
        options=options,
        files=[("pairs", str(path))],
        engine=LocalEngine(1),
    )
    try:
        outcome = run_exam(run)
    except GatemarkError as error:
        return f"{type(error).__name__}: {error}"
    return outcome.report, outcome.evidence


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Return the outcome by column and by record, and how many lines were counted by column."""
    # Both ways draw alike; fewer resamples show it as well.
    monkeypatch.setattr(contingency, "_MOST_RESAMPLES", contingency._FEWEST_RESAMPLES)
    real = PairColumns.count

    def outcomes(data: bytes, *, block: int = 4000, **options: Any) -> tuple[Any, Any, int]:
        path = tmp_path / "p"
        path.write_bytes(data)
        counted = []

        def noted(self: PairColumns, state: Any, lines: bytes) -> list[bytes] | None:
            names = real(self, state, lines)
            counted.append(len(names or ()))
            return names

        with monkeypatch.context() as changed:
            changed.setattr(PairColumns, "count", noted)
            changed.setattr(fold_shard, "COLUMN_BYTES", block)
            by_column = outcome_of(path, **options)
        with monkeypatch.context() as changed:
            changed.setattr(AgreementExam, "by_column", lambda self, admit: None)
            return by_column, outcome_of(path, **options), sum(counted)

    return outcomes


def opinion(draw: random.Random, label: str, reasons: tuple[str, ...]) -> dict[str, Any]:
    told = {"label": label if draw.random() < 0.8 else draw.choice(LABELS)}
    return told | ({"reason": draw.choice(reasons)} if reasons else {})


def record(draw: random.Random, name: str, reasons: tuple[str, ...]) -> dict[str, Any]:
    label = draw.choice(LABELS)
    row: dict[str, Any] = {"qid": name}
    for side in ("scholar", "auditor"):
        row[side] = opinion(draw, label, reasons)
    if draw.random() < 0.9:
        passages = [f"p{draw.randint(1, 4)}#{n}" for n in range(draw.randint(0, 3))]
        cited = draw.sample(passages, min(len(passages), draw.randint(0, 2)))
        row["answer_json"] = {"claim": draw.choice(CLAIMS), "citations": cited}
        row["retrieved_ids"] = passages
    return row


def spoiled(draw: random.Random, row: dict[str, Any]) -> None:
    """Make a valid row unusual."""
    match draw.randrange(9):
        case 0:
            row["flags"] = {"provenance_violation": draw.random() < 0.5}
        case 1:
            row["answer_json"] = {"citations": ["nowhere"]}
        case 2:
            row["scholar"] |= {"votes": [draw.choice(LABELS) for _ in range(3)], "seed": 7}
        case 3:
            row["auditor"]["reason"] = draw.choice(RARE_REASONS)
        case 4:
            row["schema"] = "gatemark.pair/1"
        case 5:
            row.pop("retrieved_ids", None)
        case 6:
            row["answer_json"] = None
        case 7:
            row["answer_json"] = {"claim": "x", "more": {"deep": [1, "label"]}}
        case 8:
            row["auditor"].pop("reason", None)


def written(rows: list[dict[str, Any]], separators: tuple[str, str] = (", ", ": ")) -> bytes:
    lines = [json.dumps(one, ensure_ascii=False, separators=separators) for one in rows]
    return ("\n".join(lines) + "\n").encode()


@pytest.mark.parametrize("seed", range(60))
def test_valid_lines_give_the_same_by_column_and_by_record(seed: int, both: Both) -> None:
    draw = random.Random(seed)
    form = draw.choice(ID_FORMS)
    reasons = draw.choice(((), REASONS, REASONS[:5], REASONS[:9]))
    rows = [record(draw, form.format(n), reasons) for n in range(draw.choice((60, 200)))]
    for row in rows:
        if draw.random() < 0.05:
            spoiled(draw, row)
    data = written(rows, draw.choice(((", ", ": "), (",", ":"))))
    by_column, by_record, _ = both(data, block=draw.choice((2000, 4000, 9000)))
    assert not isinstance(by_record, str)
    assert by_column == by_record


def alike(count: int = 90) -> list[dict[str, Any]]:
    return [
        {
            "qid": f"Q{n:03d}",
            "scholar": {"label": LABELS[n % 3], "reason": f"reason {n} of the one"},
            "auditor": {"label": LABELS[n % 3], "reason": f"so says number {n}"},
            "answer_json": {
                "claim": "not in context"
                if n % 3 == 1
                else f"The number is {n} of {count}, I say.",
                "citations": [f"p{n}"],
            },
            "retrieved_ids": [f"p{n - 1}", f"p{n}"],
            "flags": {"provenance_violation": False, "constraints_mismatch": False},
        }
        for n in range(count)
    ]


def test_lines_that_are_alike_are_counted_by_column(both: Both) -> None:
    by_column, by_record, counted = both(written(alike()))
    assert counted == 90
    assert by_column == by_record


def test_a_few_odd_lines_are_read_as_records_beside_the_others(both: Both) -> None:
    rows = alike()
    rows[3]["scholar"]["reason"] = 'a "quoted" reason'
    rows[30]["auditor"]["reason"] = "mail to someone@example.org"
    rows[31]["scholar"]["reason"] = "call 030 1234 56789"
    rows[50]["flags"]["constraints_mismatch"] = True
    rows[60]["answer_json"]["citations"] = ["elsewhere"]
    rows[61]["scholar"]["votes"] = ["VALID", "REJECT", "REJECT"]
    rows[62]["answer_json"]["claim"] = "Not in context!"
    by_column, by_record, counted = both(written(rows), block=16_000)
    assert counted == 90
    assert by_column == by_record
    facts = by_column[0].facts
    assert facts["personal_data"] == ["Q030 (auditor: email)", "Q031 (scholar: phone)"]
    assert facts["inexact_refusal"] == ["Q062"]
    assert facts["why"]["citation_out_of_scope"] == 1


SPOILERS: dict[str, Callable[[bytes], bytes]] = {
    "escape": lambda line: line.replace(b'"label"', b'"l\\u0061bel"'),
    "repeated key": lambda line: line[:-1] + b', "qid": "again"}',
    "repeated inner key": lambda line: line.replace(b'"label"', b'"label": "VALID", "label"', 1),
    "unknown key": lambda line: line[:-1] + b', "more": "x"}',
    "unknown label": lambda line: line.replace(b'"label": "', b'"label": "X', 1),
    "label and more": lambda line: line.replace(b'"label": "VALID"', b'"label": "VALIDX"'),
    "small letters": bytes.lower,
    "empty id": lambda line: line.replace(b'"qid": "Q', b'"qid": "", "x": "'),
    "no id": lambda line: b'{"qid": ""' + line[line.index(b", ") :],
    "number": lambda line: line.replace(b'"qid": "', b'"qid": 7, "x": "'),
    "tab": lambda line: line.replace(b'"qid": "', b'"qid": "\t'),
    "delete sign": lambda line: line.replace(b'"qid": "', b'"qid": "\x7f'),
    "NUL": lambda line: line.replace(b'"qid": "', b'"qid": "\0'),
    "not UTF-8": lambda line: line.replace(b'"reason": "', b'"reason": "\xff'),
    "surrogate": lambda line: line.replace(b'"reason": "', b'"reason": "\xed\xa0\x80'),
    "other spacing": lambda line: line.replace(b": ", b":  "),
    "blank line": lambda line: b"\n" + line,
    "two on a line": lambda line: line + line,
    "cut": lambda line: line[:-3],
    "comma": lambda line: line[:-1] + b",}",
    "carriage return": lambda line: line + b"\r",
    "array": lambda line: b"[" + line + b"]",
    "missing": lambda line: b"",
    "twice": lambda line: line + b"\n" + line,
    "long id": lambda line: line.replace(b'"qid": "', b'"qid": "' + b"x" * 600),
    "flag": lambda line: line.replace(b"false", b"true", 1),
    "flag text": lambda line: line.replace(b"false", b'"no"', 1),
    "quotes moved": lambda line: line.replace(b'"reason": "', b'"reason" "').replace(
        b'"}', b'"":}'
    ),
    "text outside": lambda line: line.replace(b'"p', b'p"', 1),
    "null citation": lambda line: line.replace(b'"citations": [', b'"citations": [null, '),
    "mark at the end": lambda line: line[:-1] + b" ",
    "more after the end": lambda line: line + b" 1",
    "brace after the end": lambda line: line + b"}",
    "blanks after the end": lambda line: line + b"  ",
    "blanks before": lambda line: b"  " + line,
    "byte order mark": lambda line: b"\xef\xbb\xbf" + line,
    "lone surrogate": lambda line: line.replace(b'"reason": "', b'"reason": "\\ud800'),
    "other order": lambda line: b'{"retrieved_ids": [], ' + line[1 : line.index(b', "retr')] + b"}",
    "many blanks": lambda line: line.replace(b'"qid":', b'"qid":' + b" " * 3000),
}


@pytest.mark.parametrize("spoiler", SPOILERS)
@pytest.mark.parametrize("place", [0, 40, 89])
@pytest.mark.parametrize("how", ["error", "first", "last"])
def test_damaged_lines_give_the_same_by_column_and_by_record(
    spoiler: str, place: int, how: str, both: Both
) -> None:
    lines = written(alike()).split(b"\n")
    lines[place] = SPOILERS[spoiler](lines[place])
    reading = ReadingChoices()
    if how != "error":
        reading = ReadingChoices("exclude", "first" if how == "first" else "last", "exclude")
    by_column, by_record, _ = both(b"\n".join(lines), block=8000, reading=reading)
    assert by_column == by_record


@pytest.mark.parametrize("seed", range(150))
def test_random_damage_gives_the_same_by_column_and_by_record(seed: int, both: Both) -> None:
    draw = random.Random(seed)
    data = bytearray(written(alike(60)))
    for _ in range(draw.choice((1, 1, 3))):
        place = draw.randrange(len(data))
        match draw.randrange(3):
            case 0:
                data[place] = draw.choice(b'"\\{}[]:, \n\r\x00\x7f\xc3e0')
            case 1:
                del data[place : place + draw.choice((1, 2, 30))]
            case 2:
                data[place:place] = draw.choice((b'"', b'\\"', b'", "x": "', b"\n", b"\xff", b"9"))
    reading = draw.choice((ReadingChoices(), ReadingChoices("exclude", "last", "exclude")))
    by_column, by_record, _ = both(bytes(data), reading=reading)
    assert by_column == by_record


def test_ids_are_looked_for_in_both_ways(both: Both) -> None:
    rows = alike()
    for expected in (range(90), range(95), range(80)):
        by_column, by_record, counted = both(
            written(rows), expected_ids=frozenset(f"Q{n:03d}" for n in expected)
        )
        assert counted == 90
        assert by_column == by_record


def test_own_labels_and_short_limits(both: Both) -> None:
    rows = [
        {"qid": f"Q{n}", "scholar": {"label": ("yes", "no")[n % 2]}, "auditor": {"label": "yes"}}
        for n in range(90)
    ]
    labels = {"yes": "accept", "no": "reject"}
    by_column, by_record, counted = both(written(rows), labels=labels)
    assert counted == 90
    assert by_column == by_record
    short = ReadingChoices(limits=Limits(line_bytes=60))
    by_column, by_record, counted = both(written(rows), labels=labels, reading=short)
    assert counted == 0
    assert by_column == by_record


def test_a_label_with_quotation_marks_is_not_taken_for_a_shorter_one(both: Both) -> None:
    rows = [
        {"qid": f"Q{n}", "scholar": {"label": "yes", "reason": "x"}, "auditor": {"label": "yes"}}
        for n in range(90)
    ]
    labels = {"yes": "accept", "no": "reject", 'yes", "reason': "reject"}
    by_column, by_record, counted = both(written(rows), labels=labels)
    assert counted == 90
    assert by_column == by_record
