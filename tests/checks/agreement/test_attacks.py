"""Attacks on own labels, tables and votes.

Each test names what is attacked: evidence that is left out, copies in disguise, labels and keys
that the eye takes for others, and files whose problem was not told.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gatemark.evidence.look_alikes import bare_text
from gatemark.statistics.raters import RatingTable, at_most_probability, percent_agreement

Run = Callable[..., Any]
Write = Callable[..., Path]
V, N, R = "VALID", "NOT_IN_CONTEXT", "REJECT"
LABELS = (V, N, R)
REASON = "a voice on page seven confirms the exact price today"
CYRILLIC = str.maketrans("aceopxyis", "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0455")
GREEK = str.maketrans("aopvtx", "\u03b1\u03bf\u03c1\u03bd\u03c4\u03c7")
DISGUISES: dict[str, Callable[[str], str]] = {
    "Cyrillic": lambda text: text.translate(CYRILLIC),
    "one Cyrillic letter": lambda text: text.replace("a", "\u0430", 1),
    "Cyrillic capitals": lambda text: text.upper().translate(
        str.maketrans(
            "ABEKMHOPCTX", "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425"
        )
    ),
    "Greek": lambda text: text.translate(GREEK),
    "Greek capitals": lambda text: text.upper().translate(
        str.maketrans("AEHINOPTX", "\u0391\u0395\u0397\u0399\u039d\u039f\u03a1\u03a4\u03a7")
    ),
    "accents": lambda text: text.replace("e", "\u00e9").replace("o", "\u00f6"),
    "combining accents": lambda text: text.replace("i", "i\u0323"),
    "dotless i": lambda text: text.replace("i", "\u0131"),
}


def pairs(n: int = 90, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "qid": f"Q{i:03d}",
            "scholar": {"label": LABELS[i % 3]},
            "auditor": {"label": LABELS[i % 3]},
            **more,
        }
        for i in range(n)
    ]


@pytest.fixture(params=["merged", "two files"])
def score(request: pytest.FixtureRequest, gatemark: Run, write_jsonl: Write) -> Run:
    """Score pairs in both forms."""

    def run(rows: list[dict[str, Any]], *options: object) -> Any:
        if request.param == "merged":
            files: tuple[object, ...] = ("--pairs", write_jsonl("p.jsonl", rows))
        else:
            one, other = (
                write_jsonl(f"{side}.jsonl", [{"qid": row["qid"], **row[side]} for row in rows])
                for side in ("scholar", "auditor")
            )
            files = ("--scholar", one, "--auditor", other)
        return gatemark("score", "agreement", *files, "--json", *options)

    return run


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_copied_reason_in_letters_that_look_alike_is_a_copy(disguise: str, score: Run) -> None:
    rows = pairs()
    for number, row in enumerate(rows):
        row["scholar"]["reason"] = f"{REASON} {number}"
        row["auditor"]["reason"] = DISGUISES[disguise](f"{REASON} {number}")
    assert all(row["scholar"]["reason"] != row["auditor"]["reason"] for row in rows)
    ran = score(rows)
    assert ran.code == 3
    assert ran.json["copied_reasons"] == 90


@pytest.mark.parametrize(
    "reason", ["ответ верно указан на первой странице", "η απάντηση είναι στη σελίδα"]
)
def test_reasons_in_another_alphabet_that_differ_are_no_copies(reason: str, score: Run) -> None:
    rows = pairs()
    for number, row in enumerate(rows):
        row["scholar"]["reason"] = f"{reason} {number}"
        row["auditor"]["reason"] = f"{reason} {number + 1000}"
    ran = score(rows)
    assert (ran.code, ran.json["copied_reasons"]) == (0, 0)


def test_letters_of_other_alphabets_are_folded_to_plain_ones() -> None:
    assert bare_text("\u0421\u0430f\u00e9!", folds=True) == "cafe"
    assert bare_text("\u0421\u0430f\u00e9!", folds=False) == "\u0441\u0430f\u00e9"


def voted() -> list[dict[str, Any]]:
    """The scholar was asked three times; on every ninth row most votes are against its label."""
    rows = pairs()
    for number, row in enumerate(rows):
        label = row["scholar"]["label"]
        other = R if label != R else V
        row["scholar"]["votes"] = [label, other, other] if number % 9 == 0 else [label] * 3
    return rows


def test_votes_left_out_on_the_rows_that_they_contradict_hold(score: Run) -> None:
    rows = voted()
    assert score(rows).code == 3
    for row in rows[::9]:
        del row["scholar"]["votes"]
    ran = score(rows)
    assert ran.code == 3
    assert ran.json["votes"]["missing"] == ["scholar has 0 votes in 10 rows, 3 votes in 80 rows"]
    assert any("missing_vote_count must be <= 0, got 10" in one for one in ran.json["blockers"])


@pytest.mark.parametrize("left", [[], [V]])
def test_single_votes_left_out_until_they_fit_the_label_hold(left: list[str], score: Run) -> None:
    rows = voted()
    for row in rows[::9]:
        row["scholar"]["votes"] = [row["scholar"]["label"]] if left else []
    ran = score(rows)
    assert ran.code == 3
    assert ran.json["votes"]["missing"] == [
        f"scholar has {len(left)} votes in 10 rows, 3 votes in 80 rows"
    ]


def test_whole_votes_of_one_side_pass(score: Run) -> None:
    rows = pairs()
    for row in rows:
        row["scholar"]["votes"] = [row["scholar"]["label"]] * 3
    ran = score(rows)
    assert (ran.code, ran.json["votes"]["missing"]) == (0, [])


def test_votes_are_counted_over_all_parts_of_a_large_file(
    gatemark: Run, write_jsonl: Write
) -> None:
    rows = pairs(6000)
    for row in rows[::2]:
        row["auditor"]["votes"] = [row["auditor"]["label"]]
    for row in rows:
        row["qid"] = row["qid"].ljust(200, "x")
    path = write_jsonl("p.jsonl", rows)
    for jobs in ("1", "2"):
        ran = gatemark("score", "agreement", "--pairs", path, "--json", "-j", jobs)
        assert ran.json["votes"]["missing"] == [
            "auditor has 0 votes in 3000 rows, 1 votes in 3000 rows"
        ]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode())
        return path

    return written


def csv_of(rows: Sequence[Sequence[str]], names: Sequence[str] = ("ann", "bob", "cho")) -> str:
    lines = [",".join(("item", *names[: len(rows[0])]))]
    lines += [",".join((f"i{place}", *row)) for place, row in enumerate(rows)]
    return "\n".join(lines) + "\n"


WORDS = ("toxic", "fine", "spam")


def three_raters(n: int = 150, every: int = 7) -> list[list[str]]:
    """Ann and Bob mostly agree; Cho differs on every seventh item, whatever its label."""
    rows = []
    for place in range(n):
        label = WORDS[place % 3]
        other = WORDS[(place + 1) % 3]
        rows.append([label, other if place % 31 == 5 else label, label])
        if place % every == 0:
            rows[-1][2] = other
    return rows


def test_hard_items_left_empty_do_not_turn_the_verdict_into_a_pass(
    gatemark: Run, write: Write
) -> None:
    rows = three_raters()
    full = gatemark("score", "agreement", "--table", write(csv_of(rows)), "--json")
    assert full.code == 3
    for row in rows[::7]:
        row[2] = ""
    path = write(csv_of(rows))
    ran = gatemark("score", "agreement", "--table", path, "--json")
    assert ran.code == 3
    assert ran.json["percent_agreement"] > 0.95
    assert any("if the empty cells differed" in one for one in ran.json["caveats"])
    planned = gatemark("score", "agreement", "--table", path, "--missing-gate", "0.2", "--json")
    assert planned.code == 0


def test_empty_cells_that_cannot_change_the_verdict_pass(gatemark: Run, write: Write) -> None:
    rows = three_raters(300, every=301)
    for row in rows[::60]:
        row[2] = ""
    assert gatemark("score", "agreement", "--table", write(csv_of(rows))).code == 0


def test_the_least_agreement_is_that_of_the_worst_labels_in_the_empty_cells() -> None:
    draw = random.Random(4)
    codes = [[draw.randrange(3)] * 3 for _ in range(60)]
    for row in codes[:20]:
        row[draw.randrange(3)] = -1
    table = RatingTable(codes, 3)
    filled = [[3 + place if one == -1 else one for place, one in enumerate(row)] for row in codes]
    whole = RatingTable(filled, 6)
    assert table.least_agreed / 60 == pytest.approx(
        whole.estimate(percent_agreement, 0.95).estimate.value
    )
    one, other = table.agreement_interval(0.95, empty_differ=True), whole.agreement_interval(0.95)
    assert one is not None
    assert other is not None
    assert one.low == pytest.approx(other.low)


@pytest.mark.parametrize("changed", [0, 1, 3])
def test_a_copied_column_with_a_few_changed_cells_is_a_copy(
    changed: int, gatemark: Run, write: Write
) -> None:
    draw = random.Random(2)
    rows = []
    for place in range(600):
        label = WORDS[place % 3]
        rows.append([label, label, label if draw.random() < 0.93 else WORDS[(place + 1) % 3]])
    for place in range(changed):
        rows[place * 50][1] = WORDS[(place * 50 + 1) % 3]
    ran = gatemark("score", "agreement", "--table", write(csv_of(rows)), "--json")
    assert ran.code == 3
    how = f"differ in {changed} of 600 items" if changed else "never differ"
    assert ran.json["copied_raters"] == [f"ann and bob {how}"]


def test_raters_who_are_all_good_are_no_copies(gatemark: Run, write: Write) -> None:
    draw = random.Random(5)
    rows = [[WORDS[place % 3]] * 3 for place in range(600)]
    for row in rows:
        if draw.random() < 0.03:
            row[draw.randrange(3)] = draw.choice(WORDS)
    ran = gatemark("score", "agreement", "--table", write(csv_of(rows)), "--json")
    assert (ran.code, ran.json["copied_raters"]) == (0, [])


def test_the_probability_of_few_differences() -> None:
    assert at_most_probability(0, 10, 0.1) == pytest.approx(0.9**10)
    assert at_most_probability(1, 10, 0.1) == pytest.approx(0.9**10 + 10 * 0.1 * 0.9**9)


@pytest.mark.parametrize("label", ["abstain", "Abstained", "\u0410bstain"])
def test_an_abstention_in_other_letters_is_refused(label: str, gatemark: Run, write: Write) -> None:
    rows = [[label] * 2 if place % 10 == 0 else [WORDS[place % 3]] * 2 for place in range(150)]
    ran = gatemark("score", "agreement", "--table", write(csv_of(rows)))
    assert ran.code == 2
    assert "looks like an abstention: write ABSTAIN" in ran.err


def test_a_label_of_one_rater_alone_is_no_second_label(gatemark: Run, write: Write) -> None:
    rows = [["fine", "fine"] for _ in range(150)] + [["toxic", ""]]
    options = ("--min-labels", "2", "--coverage-gate", "0.9", "--missing-gate", "0.2", "--json")
    ran = gatemark("score", "agreement", "--table", write(csv_of(rows)), *options)
    assert ran.code == 3
    assert any("label_count must be >= 2, got 1" in one for one in ran.json["blockers"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("item,ann,bob\ri1,a,a\ri2,b,b\r", "ends in a carriage return alone"),
        ("sep=;\nitem;ann;bob\ni1;a;a\n", "remove this line"),
        (
            "time,item,rater,label\n1,i1,ann,a\n2,i1,bob,a\n",
            "no item has two labels; items are named by column 1",
        ),
    ],
)
def test_a_table_that_cannot_be_compared_is_explained(
    text: str, told: str, gatemark: Run, write: Write
) -> None:
    ran = gatemark("score", "agreement", "--table", write(text))
    assert ran.code == 2
    assert told in ran.err


def test_labels_that_differ_in_case_are_two_labels_if_both_are_listed(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    (tmp_path / "labels.yaml").write_text("labels: {Good: accept, good: reject}\n")
    rows = json.loads(json.dumps(pairs()).replace(V, "Good").replace(N, "good").replace(R, "good"))
    path = write_jsonl("p.jsonl", rows)
    ran = gatemark(
        "score", "agreement", "--pairs", path, "--labels", tmp_path / "labels.yaml", "--json"
    )
    assert (ran.code, ran.json["finals"]) == (0, {"Good": 30, "good": 60})


@pytest.mark.parametrize("change", ["none", "line feed", "blanks", "packed", "order"])
def test_a_copied_file_is_no_second_validator(change: str, gatemark: Run, tmp_path: Path) -> None:
    """The seven fields stay as computed; equal labels in a file that differs are agreement."""
    rows = [{"qid": f"Q{i}", "label": LABELS[i % 3], "reason": "ok"} for i in range(90)]
    lines = [json.dumps(row) + "\n" for row in rows]
    text = "".join(lines)
    written = {
        "none": text.encode(),
        "line feed": f"{text}\n".encode(),
        "blanks": text.replace("\n", " \r\n").encode(),
        "packed": gzip.compress(text.encode()),
        "order": "".join(reversed(lines)).encode(),
    }
    auditor = tmp_path / ("auditor.jsonl.gz" if change == "packed" else "auditor.jsonl")
    (tmp_path / "scholar.jsonl").write_text(text)
    auditor.write_bytes(written[change])
    files = ("--scholar", tmp_path / "scholar.jsonl", "--auditor", auditor)
    ran = gatemark("score", "agreement", *files, "--json")
    is_other = change == "order"
    assert (ran.code, ran.json["percent_agreement"], ran.json["kappa"]) == (3 - 3 * is_other, 1, 1)
    told = [words for words in ran.json["caveats"] if "is a copy of" in words]
    assert bool(told) is not is_other


@pytest.mark.parametrize("sign", ["\u200b", "\u00ad", "\ufeff", "\u2060"])
def test_eighteen_questions_do_not_become_thirty_by_signs_that_nobody_sees(
    sign: str, score: Run
) -> None:
    rows = pairs(18)
    again = [row | {"qid": f"{row['qid']}{sign}"} for row in rows]
    ran = score([*rows, *again], "--min-items", "30")
    assert ran.code == 2
    assert "looks like" in ran.err
