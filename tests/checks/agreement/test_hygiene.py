"""Final labels, hygiene as checks, and labels of one's own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemark.checks.agreement.arbitrate import SOURCE_SPACE
from gatemark.checks.agreement.hygiene import is_copied
from gatemark.evidence.look_alikes import bare_text

Run = Callable[..., Any]
Write = Callable[..., Path]
V, N, R = "VALID", "NOT_IN_CONTEXT", "REJECT"
LABELS = (V, N, R)


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


def split(rows: list[dict[str, Any]], side: str) -> list[dict[str, Any]]:
    """One side of merged pairs, with the answer as it was shown to both."""
    shared = ("answer_json", "retrieved_ids", "flags")
    return [
        {"qid": row["qid"], **row[side], **{key: row[key] for key in shared if key in row}}
        for row in rows
    ]


@pytest.fixture(params=["merged", "two files"])
def score(request: pytest.FixtureRequest, gatemark: Run, write_jsonl: Write) -> Callable[..., Any]:
    """Score pairs in both forms."""

    def run(rows: list[dict[str, Any]], *options: object) -> Any:
        if request.param == "merged":
            files: tuple[object, ...] = ("--pairs", write_jsonl("p.jsonl", rows))
        else:
            # In another order: a file of the same bytes would be a copy.
            one = write_jsonl("scholar.jsonl", split(rows, "scholar"))
            other = write_jsonl("auditor.jsonl", split(rows, "auditor")[::-1])
            files = ("--scholar", one, "--auditor", other)
        return gatemark("score", "agreement", *files, "--json", *options)

    return run


SIDES = ("scholar", "auditor")


def test_every_row_is_in_the_finals_file(score: Run, tmp_path: Path) -> None:
    rows = pairs(30)
    rows[0]["flags"] = {"provenance_violation": True}
    rows[3]["answer_json"], rows[3]["retrieved_ids"] = {"citations": ["p9"]}, ["p1"]
    score(rows, "--out", tmp_path)
    header, *lines = (tmp_path / "finals.tsv").read_text().splitlines()
    assert header == "qid\tscholar\tauditor\tfinal\twhy\tflag"
    assert len(lines) == 30
    assert lines[:4] == [
        f"Q000\t{V}\t{V}\t{R}\thard_flag\thard_flag",
        f"Q001\t{N}\t{N}\t{R}\tauditor_veto\t",
        f"Q002\t{R}\t{R}\t{R}\tauditor_veto\t",
        f"Q003\t{V}\t{V}\t{R}\tcitation_out_of_scope\tcitation_out_of_scope",
    ]


def test_a_finals_file_is_sealed_with_the_result_and_derived_again(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    path, store = write_jsonl("p.jsonl", pairs()), tmp_path / "store"
    ran = gatemark("score", "agreement", "--pairs", path, "--seal", "--store", store, "--json")
    assert ran.code == 0
    shown = gatemark("show", ran.json["result_id"], "--store", store, "--json").json
    assert "finals.tsv" in {blob["name"] for blob in shown["blobs"]}
    assert gatemark("ledger", "verify", "--rescore", "--store", store).code == 0


def test_flagged_rows_that_both_accept_fail_and_are_listed(score: Run) -> None:
    rows = pairs()
    for place in (0, 3):
        rows[place]["flags"] = {"constraints_mismatch": True}
    rows[1]["flags"] = {"constraints_mismatch": True}
    ran = score(rows)
    assert ran.code == 1
    assert ran.json["flagged_valid"] == ["Q000", "Q003"]
    assert any("flagged_valid_count must be <= 0, got 2" in line for line in ran.json["blockers"])
    assert score(rows, "--flagged-gate", "2").code == 0


def test_the_ship_rate_is_judged_when_asked(score: Run) -> None:
    assert score(pairs()).code == 0
    ran = score(pairs(), "--ship-gate", "0.5")
    assert ran.code == 1
    assert any("ship_rate must be >= 0.5, got 0.333333" in one for one in ran.json["blockers"])
    accepted = ("--nic-policy", "accept_agreed")
    assert score(pairs(), "--ship-gate", "0.5", *accepted).code == 0


@pytest.mark.parametrize(
    ("claim", "place", "is_exact"),
    [
        ("not in context", 1, True),
        (None, 1, True),
        ("Not in context.", 1, False),
        ("I do not know.", 1, False),
        ("I do not know.", 0, True),
        ("NOT IN CONTEXT!", 0, False),
        ("not in context", 0, False),
        ("not in context", 2, True),
    ],
)
def test_a_refusal_is_the_exact_token(
    claim: str | None, place: int, is_exact: bool, score: Run
) -> None:
    rows = pairs()
    rows[place]["answer_json"] = {"claim": claim}
    ran = score(rows)
    assert ran.code == (0 if is_exact else 3)
    assert ran.json["refusal_token"]["rows"] == ([] if is_exact else [rows[place]["qid"]])


COPIES = "the passage on page one supports the claim"


@pytest.mark.parametrize(
    ("copied", "reason", "code"), [(90, COPIES, 3), (60, COPIES, 3), (45, COPIES, 0), (90, "ok", 0)]
)
def test_copied_reasons_hold_the_verdict(copied: int, reason: str, code: int, score: Run) -> None:
    rows = pairs()
    for number, row in enumerate(rows):
        row["scholar"]["reason"] = reason
        row["auditor"]["reason"] = reason if number < copied else f"it is on page {number}"
    ran = score(rows)
    assert ran.code == code
    assert ran.json["copied_reasons"] == (copied if reason == COPIES else 0)
    assert any("judged independently" in one for one in ran.json["caveats"]) == (code == 3)


DISGUISES = {
    "case": str.title,
    "marks": lambda text: f"- {text.replace(' ', ', ')}!",
    "blanks": lambda text: "  " + text.replace(" ", "   "),
    "joined": lambda text: text.replace("page one", "pageone"),
    "wide letters": lambda text: "".join(
        chr(ord(sign) + 0xFEE0) if sign.isalpha() else sign for sign in text
    ),
    "hidden signs": lambda text: text.replace("s", "s\u200b"),
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_copied_reason_in_other_case_marks_or_blanks_is_a_copy(disguise: str, score: Run) -> None:
    rows = pairs()
    for number, row in enumerate(rows):
        row["scholar"]["reason"] = f"{COPIES} {number}"
        row["auditor"]["reason"] = DISGUISES[disguise](f"{COPIES} {number}")
    ran = score(rows)
    assert ran.code == 3
    assert ran.json["copied_reasons"] == 90


@pytest.mark.parametrize(("reason", "count"), [("答案在第一页明确写出", 90), ("正确。", 0)])
def test_a_copy_without_blanks_between_words_is_a_copy(reason: str, count: int, score: Run) -> None:
    rows = pairs()
    for row in rows:
        row["scholar"]["reason"] = row["auditor"]["reason"] = reason
    assert score(rows).json["copied_reasons"] == count


MARKS = ("", " ", "-", "\u0301", "\u0345", "\u00ad", "(", "\u1160")
SIGNS = "abAB\u00e9\u0430\u03b1\u1fb3\ufb01\u00df\u0130\uac01\u5024\u0645 1"


@given(st.text(SIGNS, max_size=40), st.text(SIGNS, max_size=40), st.randoms(use_true_random=False))
def test_a_copy_is_found_by_its_letters_alone(one: str, more: str, draw: random.Random) -> None:
    disguised = "".join(
        sign + draw.choice(MARKS) if draw.random() < 0.3 else sign.swapcase() for sign in one
    )
    for other in (one, disguised, draw.choice(MARKS) + disguised, disguised + more, more):
        same = bare_text(one, folds=True) == bare_text(other, folds=True)
        reasons = [f"{text} in so many words" if text else "" for text in (one, other)]
        assert is_copied(*reasons) == (same and all(reasons))


def test_reasons_that_begin_alike_are_no_copies(score: Run) -> None:
    rows = pairs()
    for row in rows:
        row["scholar"]["reason"] = COPIES
        row["auditor"]["reason"] = COPIES + " well"
    ran = score(rows)
    assert ran.code == 0
    assert ran.json["copied_reasons"] == 0


def test_long_reasons_warn(score: Run) -> None:
    rows = pairs()
    rows[4]["auditor"]["reason"] = "so " * 200
    ran = score(rows)
    assert ran.code == 0
    assert ran.json["long_reasons"] == ["Q004 (auditor: 600 characters)"]
    assert score(rows, "--reason-max", "600").json["long_reasons"] == []


def test_a_social_security_number_is_not_a_phone_number(score: Run) -> None:
    rows = pairs()
    rows[4]["scholar"]["reason"] = "patient 123-45-6789 is named"
    rows[5]["scholar"]["reason"] = "call +1 415 555 0132 x"
    assert score(rows).json["personal_data"] == ["Q004 (scholar: ssn)", "Q005 (scholar: phone)"]


@pytest.mark.parametrize(
    ("votes", "label"),
    [
        ([V, V, R], V),
        ([V, R], R),
        ([V, N], N),
        ([N, "ABSTAIN"], "ABSTAIN"),
        ([R, "ABSTAIN", V, V], V),
        ([N], N),
    ],
)
def test_votes_are_reduced_in_one_way(votes: list[str], label: str) -> None:
    assert SOURCE_SPACE.reduce_votes(votes) == label
    assert SOURCE_SPACE.reduce_votes(votes[::-1]) == label


def test_a_label_that_is_not_that_of_its_votes_holds(score: Run) -> None:
    rows = pairs()
    rows[0]["scholar"] |= {"votes": [V, V, R], "seed": 11}
    rows[3]["auditor"] |= {"votes": [V, R, R], "seed": 12}
    ran = score(rows)
    assert ran.code == 3
    assert ran.json["votes"] == {
        "rows": 2,
        "mismatches": [f"Q003 (auditor: {V}, votes give {R})"],
        "missing": [
            "auditor has 0 votes in 89 rows, 3 votes in 1 rows",
            "scholar has 0 votes in 89 rows, 3 votes in 1 rows",
        ],
    }
    assert ran.json["seeds"] == {"scholar": [11], "auditor": [12]}


def test_null_citations_are_no_citations(score: Run) -> None:
    rows = pairs(answer_json={"claim": None, "citations": None}, retrieved_ids=["p1"])
    ran = score(rows)
    assert ran.code == 0
    assert "citation_out_of_scope" not in ran.json["why"]


SPEC = """\
labels:
  good: accept
  out of scope: refuse
  wrong: reject
  unsafe: reject
  skipped: abstain
extra_keys: [model, run]
"""


def own_pairs(n: int = 90) -> list[dict[str, Any]]:
    labels = ("good", "out of scope", "wrong", "unsafe")
    return [
        {
            "qid": f"Q{i:03d}",
            "scholar": {"label": labels[i % 4], "model": {"name": "a"}},
            "auditor": {"label": labels[i % 4]},
            "run": i,
        }
        for i in range(n)
    ]


def split_own(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["scholar"]["run"] = row.pop("run")


def test_own_labels_are_arbitrated_by_their_roles(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    spec = tmp_path / "labels.yaml"
    spec.write_text(SPEC)
    rows = own_pairs()
    rows[0]["auditor"]["label"] = "unsafe"
    rows[1]["auditor"]["label"] = "good"
    rows[2]["scholar"]["label"] = "skipped"
    path = write_jsonl("p.jsonl", rows)
    call = ("score", "agreement", "--pairs", path, "--labels", spec, "--out", tmp_path)
    ran = gatemark(*call, "--json")
    finals = (tmp_path / "finals.tsv").read_text().splitlines()[1:5]
    assert finals == [
        "Q000\tgood\tunsafe\tunsafe\tauditor_veto\t",
        "Q001\tout of scope\tgood\tgood\tauditor_ok\t",
        "Q002\tskipped\twrong\tunsafe\tauditor_veto\t",
        "Q003\tunsafe\tunsafe\tunsafe\tauditor_veto\t",
    ]
    assert ran.code == 0
    assert ran.json["abstain"]["scholar"] == pytest.approx(1 / 90)
    assert "skipped" in ran.json["labels"]
    assert ran.json["roles"]["unsafe"] == "reject"
    first, *labels, last = SPEC.splitlines()
    spec.write_text("\n".join([first, *reversed(labels), last]))
    again = gatemark(*call, "--json")
    assert (tmp_path / "finals.tsv").read_text().splitlines()[1:5] == finals
    assert (again.code, again.out) == (0, ran.out)
    refused = gatemark("score", "agreement", "--pairs", path)
    assert refused.code == 2


def test_own_labels_in_two_files_sealed_and_derived_again(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    spec, store = tmp_path / "labels.yaml", tmp_path / "store"
    spec.write_text(SPEC)
    rows = own_pairs()
    split_own(rows)
    sides = [write_jsonl(f"{side}.jsonl", split(rows, side)) for side in SIDES]
    files = ("--scholar", sides[0], "--auditor", sides[1])
    ran = gatemark(
        *("score", "agreement", *files, "--labels", spec),
        *("--seal", "--store", store, "--json"),
    )
    assert ran.code == 0
    spec.unlink()
    assert gatemark("ledger", "verify", "--rescore", "--store", store).code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("labels: {good: accept, bad: refused}", "label 'bad' needs one role"),
        ("labels: {good: accept}", "need 2 to 64 labels, got 1"),
        ("labels: {good: refuse, bad: reject}", "at least one label needs the role accept"),
        ("labels: {good: accept, ABSTAIN: reject}", "ABSTAIN must have the role abstain"),
        ("extra_keys: [label]", "'label' is a key of the record already"),
        ("label: {good: accept}", "unknown key 'label'; did you mean 'labels'?"),
        ("refusal_token: ' '", "refusal_token must not be blank"),
        ("labels: {ok: accept, ok: reject}", "key 'ok' appears more than once"),
        ("labels: {ok: [accept, reject], no way: reject}", "label 'ok' needs one role"),
        ("labels:\n  ok: accept\n  bad:", "label 'bad' needs one role"),
        ("labels: {accept: [ok], reject: [bad]}", "write each label with its role"),
        ("labels:\n  yes: accept\n  no: reject", ":2: key yes is not a text; put it in quotes"),
        ("labels: {REJECT: accept, ok: refuse}", "REJECT must have the role reject, got accept"),
        ("labels: {caf\u00e9: accept, cafe\u0301: reject}", "look alike; rename one"),
        ("labels: {ok: accept, \u043ek: reject}", r"'\u043ek' and 'ok' look alike"),
        ("extra_keys: [model, model]", "'model' is listed twice"),
        ("extra_keys: ['']", "'' is not a key"),
        ("extra_keys: [Flags]", "'flags' is a key of the record already; 'Flags' is another"),
        ("extra_keys: [retrievedIds]", "'retrievedIds' is another spelling of it"),
        ("", "expected a mapping with labels"),
    ],
)
def test_a_bad_label_file_is_refused(
    text: str, message: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    spec = tmp_path / "labels.yaml"
    spec.write_text(text)
    path = write_jsonl("p.jsonl", pairs())
    ran = gatemark("score", "agreement", "--pairs", path, "--labels", spec)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("labels.yaml") == 1


def test_an_unknown_label_is_refused_with_the_allowed_ones(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    spec = tmp_path / "labels.yaml"
    spec.write_text(SPEC)
    rows = own_pairs()
    rows[5]["auditor"]["label"] = "VALID"
    path = write_jsonl("p.jsonl", rows)
    ran = gatemark("score", "agreement", "--pairs", path, "--labels", spec)
    assert ran.code == 2
    assert "p.jsonl:6: " in ran.err
    assert "out of scope" in ran.err
    assert json.dumps("VALID") in ran.err


@pytest.mark.parametrize("kind", ["label", "votes"])
def test_labels_of_ones_own_without_a_file_of_them_are_told_what_to_do(
    kind: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    hint = "gatemark: for labels of your own, pass --labels FILE (in a pack: labels) with the role"
    rows = own_pairs() if kind == "label" else pairs()
    if kind == "votes":
        rows[3]["auditor"]["votes"] = ["supported"]
    ran = gatemark("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows))
    assert (ran.code, ran.err.count(hint)) == (2, 1)
    sides = [
        write_jsonl(f"{side}.jsonl", [{"qid": row["qid"], **row[side]} for row in rows])
        for side in ("scholar", "auditor")
    ]
    ran = gatemark("score", "agreement", "--scholar", sides[0], "--auditor", sides[1])
    assert (ran.code, ran.err.count(hint)) == (2, 1)
    spec = tmp_path / "labels.yaml"
    spec.write_text("labels: {fine: accept, bad: reject}")
    ran = gatemark("score", "agreement", "--pairs", tmp_path / "p.jsonl", "--labels", spec)
    assert "add the label with its role to the file that --labels names" in ran.err
    other = gatemark("score", "agreement", "--pairs", write_jsonl("q.jsonl", [{"qid": 1}]))
    assert (other.code, "--labels" in other.err) == (2, False)


@pytest.mark.parametrize("option", ["--pairs", "--scholar"])
def test_a_table_in_place_of_records_is_told_its_option(
    option: str, gatemark: Run, tmp_path: Path
) -> None:
    path, other = tmp_path / "labels.csv", tmp_path / "more.csv"
    for one in (path, other):
        one.write_text("item,ann,bob\n1,fine,fine\n")
    more = ("--auditor", other) if option == "--scholar" else ()
    ran = gatemark("score", "agreement", option, path, *more)
    assert ran.code == 2
    assert ran.err.count("pass one file with all raters as --table") == 1
