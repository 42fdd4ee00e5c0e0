"""Files read by column give the same result, and the same errors, as files read by record."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gatemark.core.errors import GatemarkError
from gatemark.evidence.engines.local import LocalEngine
from gatemark.evidence.exam import ExamRun
from gatemark.evidence.personal_data import suspicious_bytes
from gatemark.evidence.reading_choices import Limits, ReadingChoices
from gatemark.evidence.run_exam import run_exam
from gatemark.exams.agreement import two_files
from gatemark.exams.agreement.plain_files import LineBytes
from gatemark.exams.agreement.rules import SOURCE_ROLES, LabelSpace
from gatemark.exams.agreement.views import RowTable
from gatemark.statistics import contingency

LABELS = ("VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN")
REASONS = (
    "the claim is in the passage",
    "cites page 12 of the manual",
    "",
    "short",
    "die Größe stimmt nicht überein",
    "call 030 1234 56789 for more",
    "mail to someone@example.org",
    "provenance-of-the-claim-is-unclear",
    "token ghp_0123456789abcdefABCDEF",
    "ssn 123-45-6789 is there",
    "-----BEGIN PRIVATE KEY-----",
    "x" * 600,
    "ü" * 400,
)
ID_FORMS = ("Q{:04d}", "{}", "größe-{}", "=1+{}", "\uff1d{}", "a-much-longer-name-of-a-question-{}")


def outcome_of(folder: Path, **options: Any) -> tuple[Any, ...] | str:
    reading = options.pop("reading", ReadingChoices())
    expected_ids = options.pop("expected_ids", None)
    run = ExamRun(
        kind="agreement",
        options=options,
        files=[("scholar", str(folder / "s")), ("auditor", str(folder / "a"))],
        reading=reading,
        engine=LocalEngine(1),
        expected_ids=expected_ids,
    )
    try:
        outcome = run_exam(run)
    except GatemarkError as error:
        return f"{type(error).__name__}: {error}"
    return outcome.report, outcome.evidence


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any, bool]]:
    """Return the outcome by column and by record, and whether columns were used."""
    # Both ways draw alike; fewer resamples show it as well.
    monkeypatch.setattr(contingency, "_MOST_RESAMPLES", contingency._FEWEST_RESAMPLES)
    real = two_files.read_plain_rows

    def outcomes(first: bytes, second: bytes, **options: Any) -> tuple[Any, Any, bool]:
        (tmp_path / "s").write_bytes(first)
        (tmp_path / "a").write_bytes(second)
        used = []

        def noted(*arguments: Any) -> Any:
            rows = real(*arguments)
            used.append(rows is not None)
            return rows

        monkeypatch.setattr(two_files, "read_plain_rows", noted)
        by_column = outcome_of(tmp_path, **options)
        monkeypatch.setattr(two_files, "read_plain_rows", lambda *_: None)
        return by_column, outcome_of(tmp_path, **options), used == [True]

    return outcomes


def records(draw: random.Random, count: int, form: str) -> list[list[dict[str, Any]]]:
    sides: list[list[dict[str, Any]]] = [[], []]
    has_reasons = draw.random() < 0.8
    for number in range(count):
        label, reason = draw.choice(LABELS), draw.choice(REASONS)
        for side in sides:
            given = label if draw.random() < 0.8 else draw.choice(LABELS)
            record = {"qid": form.format(number), "label": given}
            if has_reasons:
                record["reason"] = reason if draw.random() < 0.4 else draw.choice(REASONS)
            side.append(record)
    for side in sides:
        if draw.random() < 0.5:
            draw.shuffle(side)
    return sides


def written(side: list[dict[str, Any]], separators: tuple[str, str]) -> bytes:
    lines = [json.dumps(one, ensure_ascii=False, separators=separators) for one in side]
    return ("\n".join(lines) + "\n").encode()


@pytest.mark.parametrize("seed", range(60))
def test_plain_files_give_the_same_by_column_and_by_record(
    seed: int, both: Callable[..., tuple[Any, Any, bool]]
) -> None:
    draw = random.Random(seed)
    separators = draw.choice(((", ", ": "), (",", ":")))
    first, second = records(draw, draw.choice((1, 7, 60, 300)), draw.choice(ID_FORMS))
    data = written(first, separators), written(second, draw.choice((separators, (", ", " : "))))
    by_column, by_record, is_plain = both(*data)
    assert is_plain
    assert by_column == by_record


SPOILERS: dict[str, Callable[[bytes], bytes]] = {
    "escape": lambda line: line.replace(b'"label"', b'"l\\u0061bel"'),
    "repeated key": lambda line: line.replace(b"}", b', "label": "REJECT"}'),
    "unknown key": lambda line: line.replace(b"}", b', "more": "x"}'),
    "unknown label": lambda line: line.replace(b'"label": "', b'"label": "X'),
    "small label": lambda line: line.lower(),
    "empty id": lambda line: b'{"qid": "", "label": "VALID", "reason": "r"}',
    "number": lambda line: b'{"qid": 7, "label": "VALID", "reason": "r"}',
    "null": lambda line: line.replace(b'"qid": "', b'"qid": null, "x": "'),
    "tab": lambda line: line.replace(b'"qid": "', b'"qid": "\t'),
    "delete sign": lambda line: line.replace(b'"qid": "', b'"qid": "\x7f'),
    "NUL": lambda line: line.replace(b'"qid": "', b'"qid": "\0'),
    "not UTF-8": lambda line: line.replace(b'"reason": "', b'"reason": "\xff'),
    "surrogate": lambda line: line.replace(b'"reason": "', b'"reason": "\xed\xa0\x80'),
    "other order": lambda line: b'{"label": "VALID", "qid": "new", "reason": "r"}',
    "other spacing": lambda line: line.replace(b": ", b":  "),
    "blank line": lambda line: b"\n" + line,
    "two on a line": lambda line: line + line,
    "cut": lambda line: line[:-3],
    "comma": lambda line: line.replace(b"}", b",}"),
    "carriage return": lambda line: line + b"\r",
    "array": lambda line: b"[" + line + b"]",
    "missing": lambda line: b"",
    "twice": lambda line: line + b"\n" + line,
    "long id": lambda line: line.replace(b'"qid": "', b'"qid": "' + b"x" * 600),
    "evidence": lambda line: line.replace(b"}", b', "flags": {"constraints_mismatch": true}}'),
    "quotes moved": lambda line: line.replace(b'"reason": "', b'"reason" "').replace(
        b'"}', b'"":}'
    ),
    "mark at the end": lambda line: line[:-1] + b" ",
    "byte order mark": lambda line: b"\xef\xbb\xbf" + line,
    "lone surrogate": lambda line: line.replace(b'"reason": "', b'"reason": "\\ud800'),
    "many blanks": lambda line: line.replace(b'"qid":', b'"qid":' + b" " * 3000),
}


@pytest.mark.parametrize("spoiler", SPOILERS)
@pytest.mark.parametrize("place", [0, 40, 79])
@pytest.mark.parametrize("excludes", [False, True])
def test_unusual_lines_give_the_same_by_column_and_by_record(
    spoiler: str, place: int, excludes: bool, both: Callable[..., tuple[Any, Any, bool]]
) -> None:
    first, second = (
        [
            {"qid": f"Q{n}", "label": LABELS[n % 3], "reason": f"reason {n} of {who}"}
            for n in range(80)
        ]
        for who in ("one", "two")
    )
    lines = written(first, (", ", ": ")).split(b"\n")
    lines[place] = SPOILERS[spoiler](lines[place])
    reading = ReadingChoices()
    if excludes:
        reading = ReadingChoices("exclude", "first", "exclude")
    by_column, by_record, is_plain = both(
        b"\n".join(lines), written(second, (", ", ": ")), reading=reading
    )
    assert not is_plain
    assert by_column == by_record


def test_a_line_beyond_the_limit_and_a_file_without_a_last_line_break(
    both: Callable[..., tuple[Any, Any, bool]],
) -> None:
    draw = random.Random(1)
    first, second = records(draw, 50, "Q{}")
    data = written(first, (", ", ": ")).rstrip(b"\n"), written(second, (", ", ": "))
    by_column, by_record, is_plain = both(*data)
    assert is_plain
    assert by_column == by_record
    short = ReadingChoices(limits=Limits(line_bytes=60))
    by_column, by_record, is_plain = both(*data, reading=short)
    assert by_column == by_record


@pytest.mark.parametrize("expected", [range(50), range(51), range(49)])
def test_expected_ids(expected: range, both: Callable[..., tuple[Any, Any, bool]]) -> None:
    first, second = records(random.Random(2), 50, "Q{}")
    by_column, by_record, _ = both(
        written(first, (", ", ": ")),
        written(second, (", ", ": ")),
        expected_ids=frozenset(f"Q{n}" for n in expected),
    )
    assert by_column == by_record


def test_own_labels(both: Callable[..., tuple[Any, Any, bool]]) -> None:
    rows = [{"qid": f"Q{n}", "label": ("yes", "no")[n % 2]} for n in range(60)]
    data = written(rows, (", ", ": "))
    by_column, by_record, is_plain = both(data, data, labels={"yes": "accept", "no": "reject"})
    assert is_plain
    assert by_column == by_record


PIECES = (
    *"0123456789aZ _-.()+,/*@#",
    "-----BEGIN",
    "ü",
    "é1",
    "12345678",
    "abcdefghijklmnopq",
    "x" * 40,
)


@pytest.mark.parametrize("seed", range(40))
def test_many_reasons_are_doubted_at_once_as_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    pieces = draw.sample(PIECES, draw.randint(3, len(PIECES)))
    counts = draw.choice(((0, 12), (5, 40), (0, 300)))
    reasons = ["".join(draw.choices(pieces, k=draw.randint(*counts))).encode() for _ in range(80)]
    data = b"".join(b'{"r": "%s", "provenance_violation": 1}\n' % one for one in reasons)
    quotes = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord('"')).reshape(-1, 6)
    found = LineBytes(data).doubtful((quotes[:, 2] + 1, quotes[:, 3]), 300)
    assert found.tolist() == [len(one) > 300 or suspicious_bytes(one) for one in reasons]


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_written_like_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    space = LabelSpace(SOURCE_ROLES)
    form = draw.choice(("Q{:05d}", "Q{}", "=Q{:05d}", "größe{:05d}", "back\\slash{:05d}"))
    shards, lines = [], []
    used = draw.sample(range(len(space.cells)), draw.randint(1, 8))
    wanted = draw.sample(used, draw.randint(1, len(used)))
    ends = ["\t" + "x" * (code % 7) + "\n" for code in range(len(space.cells))]
    for shard in range(3):
        names = [form.format(shard * 1000 + n) for n in range(draw.choice((0, 1, 90)))]
        codes = [draw.choice(used) for _ in names]
        shards.append(("".join(f"{n}\n" for n in names).encode(), np.array(codes, "<u2").tobytes()))
        shown = [("\\" * name.startswith("=") + name.replace("\\", "\\\\")) for name in names]
        lines += [n + ends[code] for n, code in zip(shown, codes, strict=True) if code in wanted]
    table = RowTable(shards, space).write(ends, ("a", "b"), wanted)
    assert table.decode() == "a\tb\n" + "".join(lines)
