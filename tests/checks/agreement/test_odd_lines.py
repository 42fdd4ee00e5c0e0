"""Odd lines give the numbers that follow by definition, and the refusals of the strict reader.

The reader decodes blocks of lines and looks closer only where it must. Each file here is read
twice: as it is, and with every line on its own by the strict path.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.checks.agreement.by_definition import find_facts, join_sides, write_finals

from gatemark.checks.agreement import join
from gatemark.core.errors import GatemarkError
from gatemark.evidence import fold_shard
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.engines.local import LocalEngine
from gatemark.evidence.exam import ExamRun
from gatemark.evidence.reading_choices import Limits, ReadingChoices
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.run_exam import run_exam
from gatemark.statistics import contingency

Outcome = tuple[Any, Any] | str
Both = Callable[..., tuple[Outcome, Outcome]]
LABELS = ("VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN")
COPIED = "the claim is on page one of the manual"
REASONS = (
    COPIED,
    COPIED.title() + "!",
    "The cl\u00e1im is on page one of the manual",
    "- - - The (cl\u00e1im) is on page one of the manual",
    "cites page 12 of the manual",
    "",
    "short",
    "die Größe stimmt nicht überein",
    "call 030 1234 56789 for more",
    "call \u0660\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669 for more",
    "row 1234567, part 8",
    "mail to someone@example.org",
    "ssn 123-45-6789 is there",
    "token ghp_0123456789abcdefABCDEF",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN",
    "provenance-of-the-claim-is-unclear",
    "two lines:\ncall 030 1234\n56789 for more",
    "x" * 600,
    "ü" * 400,
    'he said "no" to it',
    "a slash \\ here: \\u003a",
    "\u2028 line",
    "\x7f sign",
    "\U0001f600 smiles",
)
CLAIMS = ("The tea is served at four.", "not in context", "Not in context.", "", "Paris", None)
ID_FORMS = ("Q{:04d}", "{}", "größe-{}", "=1+{}", "\uff1d{}", "a:{}", "long-" * 13 + "{}")
ANSWERS = (
    {"claim": "Tea at four.", "citations": ["p1#1"], "more": {"a": 1, "b": [1, 2]}},
    {"more": {"b": [1.0, 2], "a": 1.0}, "citations": ["p1#1"], "claim": "Tea at four."},
    {"claim": "not in context", "citations": []},
    {"claim": "Tea at five.", "citations": None},
    {},
    None,
)
PASSAGES = (["p1#1", "p2#1"], ["p2#1", "p1#1"], ["p9"], [], None)
EXCLUDES = {
    "error": ReadingChoices(),
    "first": ReadingChoices("exclude", "first", "exclude"),
    "last": ReadingChoices("exclude", "last", "exclude"),
}


def outcome_of(paths: Mapping[str, Path], **options: Any) -> Outcome:
    run = ExamRun(
        kind="agreement",
        reading=options.pop("reading", ReadingChoices()),
        expected_ids=options.pop("expected_ids", None),
        options=options,
        files=[(role, str(path)) for role, path in paths.items()],
        engine=LocalEngine(1),
    )
    try:
        outcome = run_exam(run)
    except GatemarkError as error:
        return f"{type(error).__name__}: {error}"
    return outcome.report, outcome.evidence


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Return the outcome of files as they are read, and as each line alone is read strictly."""
    # Both ways draw alike; fewer resamples show it as well.
    monkeypatch.setattr(contingency, "_MOST_RESAMPLES", contingency._FEWEST_RESAMPLES)

    def outcomes(*files: bytes, block: int = 4000, **options: Any) -> tuple[Outcome, Outcome]:
        roles = ("pairs",) if len(files) == 1 else ("scholar", "auditor", "third")
        paths = {role: tmp_path / role for role, _ in zip(roles, files, strict=False)}
        for path, data in zip(paths.values(), files, strict=True):
            path.write_bytes(data)
        with monkeypatch.context() as changed:
            for module in (fold_shard, join):
                changed.setattr(module, "read_blocks", partial(read_blocks, block_bytes=block))
            found = outcome_of(paths, **options)
            changed.setattr(RecordReader, "_read_fast", lambda *_: None)
            return found, outcome_of(paths, **options)

    return outcomes


def opinion(draw: random.Random, label: str, reasons: Sequence[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"label": label if draw.random() < 0.8 else draw.choice(LABELS)}
    if reasons and draw.random() < 0.95:
        told["reason"] = draw.choice(reasons)
    if draw.random() < 0.05:
        told |= {"votes": [told["label"]] * 3, "seed": 7}
    return told


def make_pair(draw: random.Random, name: str, reasons: Sequence[str]) -> dict[str, Any]:
    label = draw.choice(LABELS)
    row: dict[str, Any] = {"qid": name}
    for side in ("scholar", "auditor"):
        row[side] = opinion(draw, label, reasons)
    if draw.random() < 0.9:
        passages = [f"p{draw.randint(1, 4)}#{n}" for n in range(draw.randint(0, 3))]
        cited = draw.sample(passages, min(len(passages), draw.randint(0, 2)))
        row["answer_json"] = {"claim": draw.choice(CLAIMS), "citations": cited}
        row["retrieved_ids"] = passages
    if draw.random() < 0.2:
        make_odd(draw, row)
    return row


def make_odd(draw: random.Random, row: dict[str, Any]) -> None:
    """Make a valid row unusual."""
    match draw.randrange(7):
        case 0:
            row["flags"] = {"provenance_violation": draw.random() < 0.5}
        case 1:
            row["answer_json"] = {"citations": ["nowhere"]}
        case 2:
            row["schema"] = "gatemark.pair/1"
        case 3:
            row.pop("retrieved_ids", None)
        case 4:
            row["answer_json"] = None
        case 5:
            row["answer_json"] = {"claim": "x", "more": {"deep": [1, "label: x"]}}
        case 6:
            row["answer_json"] = {"claim": None, "a: b": 1e300, "\u00e9": [{"c": {"d": None}}]}


def make_sides(draw: random.Random, count: int, form: str) -> list[list[dict[str, Any]]]:
    """Return the judgements of two validators, in other orders, about about the same evidence."""
    sides: list[list[dict[str, Any]]] = [[], []]
    says_evidence = draw.choice((0.0, 0.5, 1.0))
    for number in range(count):
        label, seen = draw.choice(LABELS), (draw.choice(ANSWERS), draw.choice(PASSAGES))
        for side in sides:
            row = {"qid": form.format(number), **opinion(draw, label, REASONS)}
            if draw.random() < says_evidence:
                changes = draw.random() < 0.2
                row["answer_json"] = draw.choice(ANSWERS) if changes else seen[0]
            if draw.random() < says_evidence:
                row["retrieved_ids"] = draw.choice(PASSAGES) if draw.random() < 0.2 else seen[1]
            if draw.random() < 0.2:
                row["flags"] = {"constraints_mismatch": draw.random() < 0.5}
            side.append(row)
    for side in sides:
        if draw.random() < 0.5:
            draw.shuffle(side)
    return sides


def written(
    rows: Sequence[Mapping[str, Any]], separators: tuple[str, str] = (", ", ": "), **how: bool
) -> bytes:
    how = {"ensure_ascii": False} | how
    lines = [json.dumps(one, separators=separators, **how) for one in rows]  # type: ignore[arg-type]
    return ("\n".join(lines) + "\n").encode()


def check_by_definition(found: Outcome, rows: Sequence[Mapping[str, Any]]) -> None:
    assert not isinstance(found, str)
    report, _ = found
    wanted = find_facts(rows)
    shown = {
        key: value[:100] if isinstance(value, list) else value for key, value in wanted.items()
    }
    assert {key: report.facts[key] for key in wanted} == shown
    assert report.attachments["finals.tsv"].decode() == write_finals(rows)


@pytest.mark.parametrize("seed", range(60))
def test_valid_pairs_give_what_follows_by_definition(seed: int, both: Both) -> None:
    draw = random.Random(seed)
    form = draw.choice(ID_FORMS)
    reasons = draw.choice(((), REASONS, REASONS[:7], REASONS[:11]))
    rows = [make_pair(draw, form.format(n), reasons) for n in range(draw.choice((60, 200)))]
    separators = draw.choice(((", ", ": "), (",", ":"), (" , ", " : ")))
    data = written(rows, separators, ensure_ascii=draw.random() < 0.5)
    found, strict = both(data, block=draw.choice((2000, 9000, 90_000)))
    assert found == strict
    check_by_definition(found, rows)


@pytest.mark.parametrize("seed", range(60))
def test_valid_sides_give_what_follows_by_definition(seed: int, both: Both) -> None:
    draw = random.Random(seed)
    sides = make_sides(draw, draw.choice((1, 7, 60, 200)), draw.choice(ID_FORMS))
    data = [written(side, ensure_ascii=draw.random() < 0.5) for side in sides]
    found, strict = both(*data, block=draw.choice((2000, 90_000)))
    assert found == strict
    rows, different = join_sides(sides)
    check_by_definition(found, rows)
    assert found[0].facts["different_evidence"] == different[:100]  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(10))
def test_a_third_side_is_looked_at_like_the_others(seed: int, both: Both) -> None:
    draw = random.Random(seed)
    sides = make_sides(draw, 60, "Q{:03d}")
    third = [dict(row, label=draw.choice(LABELS)) for row in draw.sample(sides[0], 50)]
    for row in third:
        if draw.random() < 0.2:
            row["answer_json"] = draw.choice(ANSWERS)
    reading = ReadingChoices("exclude", "first", "exclude")
    found, strict = both(*map(written, (*sides, third)), reading=reading)
    assert found == strict
    rows, different = join_sides([*sides, third])
    assert not isinstance(found, str)
    assert found[0].facts["different_evidence"] == different
    assert found[0].facts["why"] == find_facts(rows)["why"]
    assert found[0].facts["unrated"] == {"third": 10}


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


def alike_sides() -> list[list[dict[str, Any]]]:
    return [
        [
            {"qid": f"Q{n}", "label": LABELS[n % 3], "reason": f"reason {n} of {who}"}
            for n in range(80)
        ]
        for who in ("one", "two")
    ]


def in_answer(line: bytes, more: bytes) -> bytes:
    """Return a line with more in its answer."""
    start = b'"answer_json": {'
    if start in line:
        return line.replace(start, start + more + b", ")
    return line[:-1] + b", " + start + more + b"}}"


SPOILERS: dict[str, Callable[[bytes], bytes]] = {
    "escape": lambda line: line.replace(b'"label"', b'"l\\u0061bel"'),
    "repeated key": lambda line: line[:-1] + b', "qid": "again"}',
    "repeated escaped key": lambda line: line[:-1] + b', "\\u0071id": "again"}',
    "repeated key behind a colon": lambda line: (
        line[:-1].replace(b"reason ", b"reason \\u003a ") + b', "qid": "again"}'
    ),
    "repeated inner key": lambda line: line.replace(b'"label"', b'"label": "VALID", "label"', 1),
    "repeated unread key": lambda line: in_answer(line, b'"x": 1, "x": 2'),
    "repeated inner unread key": lambda line: in_answer(line, b'"x": {"y": 1, "\\u0079": 1}'),
    "unknown key": lambda line: line[:-1] + b', "more": "x"}',
    "unknown label": lambda line: line.replace(b'"label": "', b'"label": "X', 1),
    "label and more": lambda line: line.replace(b'"label": "VALID"', b'"label": "VALIDX"'),
    "small letters": bytes.lower,
    "empty id": lambda line: line.replace(b'"qid": "Q', b'"qid": "", "x": "'),
    "no id": lambda line: b'{"qid": ""' + line[line.index(b", ") :],
    "number": lambda line: line.replace(b'"qid": "', b'"qid": 7, "x": "'),
    "null": lambda line: line.replace(b'"qid": "', b'"qid": null, "x": "'),
    "tab": lambda line: line.replace(b'"qid": "', b'"qid": "\t'),
    "escaped tab": lambda line: line.replace(b'"qid": "', b'"qid": "\\t'),
    "delete sign": lambda line: line.replace(b'"qid": "', b'"qid": "\x7f'),
    "NUL": lambda line: line.replace(b'"qid": "', b'"qid": "\0'),
    "not UTF-8": lambda line: line.replace(b'"reason": "', b'"reason": "\xff'),
    "surrogate": lambda line: line.replace(b'"reason": "', b'"reason": "\xed\xa0\x80'),
    "lone surrogate": lambda line: line.replace(b'"reason": "', b'"reason": "\\ud800'),
    "half a pair": lambda line: line.replace(b'"reason": "', b'"reason": "\\ud83d\\u0041'),
    "unread half": lambda line: in_answer(line, b'"x": "\\udc00"'),
    "unread infinity": lambda line: in_answer(line, b'"x": 1e999'),
    "unread depth": lambda line: in_answer(line, b'"x": ' + b"[" * 70 + b"]" * 70),
    "unread text": lambda line: in_answer(line, b'"x": "a: b", "c: d": [{"e": ":"}]'),
    "wrong citations": lambda line: in_answer(line, b'"citations": "p1"'),
    "other order": lambda line: b'{"retrieved_ids": [], ' + line[1:],
    "other spacing": lambda line: line.replace(b": ", b":  "),
    "blank line": lambda line: b"\n" + line,
    "two on a line": lambda line: line + line,
    "cut": lambda line: line[:-3],
    "comma": lambda line: line[:-1] + b",}",
    "carriage return": lambda line: line + b"\r",
    "array": lambda line: b"[" + line + b"]",
    "missing": lambda line: b"",
    "twice": lambda line: line + b"\n" + line,
    "twice in capitals": lambda line: line + b"\n" + line.replace(b'"qid": "Q', b'"qid": "q'),
    "long id": lambda line: line.replace(b'"qid": "', b'"qid": "' + b"x" * 600),
    "flags": lambda line: line[:-1] + b', "flags": {"constraints_mismatch": true}}',
    "flag text": lambda line: line.replace(b"false", b'"no"', 1),
    "quotes moved": lambda line: line.replace(b'"reason": "', b'"reason" "').replace(
        b'"}', b'"":}'
    ),
    "text outside": lambda line: line.replace(b'"Q', b'Q"', 1),
    "null citation": lambda line: line.replace(b'"citations": [', b'"citations": [null, '),
    "blank at the end": lambda line: line[:-1] + b" ",
    "more after the end": lambda line: line + b" 1",
    "brace after the end": lambda line: line + b"}",
    "blanks after the end": lambda line: line + b"  ",
    "blanks before": lambda line: b"  " + line,
    "byte order mark": lambda line: b"\xef\xbb\xbf" + line,
    "many blanks": lambda line: line.replace(b'"qid":', b'"qid":' + b" " * 3000),
}


@pytest.mark.parametrize("spoiler", SPOILERS)
@pytest.mark.parametrize("place", [0, 40, 89])
@pytest.mark.parametrize("how", EXCLUDES)
def test_damaged_pairs_are_refused_as_the_strict_reader_does(
    spoiler: str, place: int, how: str, both: Both
) -> None:
    lines = written(alike()).split(b"\n")
    lines[place] = SPOILERS[spoiler](lines[place])
    found, strict = both(b"\n".join(lines), block=8000, reading=EXCLUDES[how])
    assert found == strict


@pytest.mark.parametrize("spoiler", SPOILERS)
@pytest.mark.parametrize("place", [0, 40, 79])
@pytest.mark.parametrize("how", EXCLUDES)
def test_damaged_judgements_are_refused_as_the_strict_reader_does(
    spoiler: str, place: int, how: str, both: Both
) -> None:
    first, second = alike_sides()
    lines = written(first).split(b"\n")
    lines[place] = SPOILERS[spoiler](lines[place])
    found, strict = both(b"\n".join(lines), written(second), reading=EXCLUDES[how])
    assert found == strict


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("form", ["pairs", "judgements"])
def test_random_damage_is_refused_as_the_strict_reader_does(
    seed: int, form: str, both: Both
) -> None:
    draw = random.Random(seed)
    files = [alike(60)] if form == "pairs" else [side[:60] for side in alike_sides()]
    data = bytearray(written(files[0]))
    for _ in range(draw.choice((1, 1, 3))):
        place = draw.randrange(len(data))
        match draw.randrange(3):
            case 0:
                data[place] = draw.choice(b'"\\{}[]:, \n\r\x00\x7f\xc3e0')
            case 1:
                del data[place : place + draw.choice((1, 2, 30))]
            case 2:
                data[place:place] = draw.choice(
                    (b'"', b'\\"', b'", "x": "', b"\n", b"\xff", b"9", b"\\u003a", b"\\ud800")
                )
    reading = EXCLUDES[draw.choice(("error", "last"))]
    found, strict = both(bytes(data), *map(written, files[1:]), reading=reading)
    assert found == strict


def test_a_few_odd_lines_are_found_among_many(both: Both) -> None:
    rows = alike()
    rows[3]["scholar"]["reason"] = 'a "quoted" reason'
    rows[30]["auditor"]["reason"] = "mail to someone@example.org"
    rows[31]["scholar"]["reason"] = "call 030 1234 56789"
    rows[50]["flags"]["constraints_mismatch"] = True
    rows[60]["answer_json"]["citations"] = ["elsewhere"]
    rows[61]["scholar"]["votes"] = ["VALID", "REJECT", "REJECT"]
    rows[62]["answer_json"]["claim"] = "Not in context!"
    found, strict = both(written(rows), block=16_000)
    assert found == strict
    facts = found[0].facts  # type: ignore[union-attr]
    assert facts["personal_data"] == ["Q030 (auditor: email)", "Q031 (scholar: phone)"]
    assert facts["inexact_refusal"] == ["Q062"]
    assert facts["vote_mismatch"] == ["Q061 (scholar: NOT_IN_CONTEXT, votes give REJECT)"]
    assert facts["why"]["citation_out_of_scope"] == 1


@pytest.mark.parametrize("expected", [range(80), range(85), range(75)])
def test_expected_ids_are_looked_for(expected: range, both: Both) -> None:
    first, second = alike_sides()
    ids = frozenset(f"Q{n}" for n in expected)
    pairs = [
        {"qid": row["qid"], "scholar": {"label": "VALID"}, "auditor": {"label": "VALID"}}
        for row in first
    ]
    for files in ((first, second), (pairs,)):
        found, strict = both(*map(written, files), expected_ids=ids)
        assert found == strict
        if len(expected) < 80:
            assert "is not among the expected ids" in found
        else:
            assert found[1].missing == len(expected) - 80  # type: ignore[union-attr]


def test_a_line_beyond_the_limit_and_a_file_without_a_last_line_break(both: Both) -> None:
    first, second = alike_sides()
    data = written(first).rstrip(b"\n"), written(second)
    found, strict = both(*data)
    assert found == strict
    check_by_definition(found, join_sides((first, second))[0])
    found, strict = both(*data, reading=ReadingChoices(limits=Limits(line_bytes=60)))
    assert found == strict
    assert "line is longer than 60 bytes" in found


def test_own_labels_may_hold_quotation_marks(both: Both) -> None:
    labels = {"yes": "accept", "no": "reject", 'yes", "reason': "reject"}
    rows = [
        {"qid": f"Q{n}", "label": ("yes", 'yes", "reason')[n % 2], "reason": "x"} for n in range(90)
    ]
    found, strict = both(written(rows), written(rows) + b"\n", labels=labels)
    assert found == strict
    assert found[0].facts["labels"].keys() == {"yes", 'yes", "reason'}  # type: ignore[union-attr]
