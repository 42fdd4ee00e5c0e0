"""``score agreement --table``: any number of raters, any labels, missing ratings."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import gatemark as public
from gatemark.core.errors import BadInputError, UsageError

Run = Callable[..., Any]
Write = Callable[[str], Path]

RAW_4_RATERS = """\
Units,Rater1,Rater2,Rater3,Rater4
1,1,1,,1
2,2,2,3,2
3,3,3,3,3
4,3,3,3,3
5,2,2,2,2
6,1,2,3,4
7,4,4,4,4
8,1,1,2,1
9,2,2,2,2
10,,5,5,5
11,,,1,1
12,,,3,
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(text: str, name: str = "table.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return written


def csv_of(rows: Sequence[Sequence[str]], raters: int | None = None) -> str:
    count = raters or len(rows[0])
    header = ",".join(["item", *(f"r{place + 1}" for place in range(count))])
    lines = [",".join([f"i{place}", *row]) for place, row in enumerate(rows)]
    return "\n".join([header, *lines]) + "\n"


def good_rows(n: int = 200, raters: int = 3, seed: int = 1) -> list[list[str]]:
    """Three labels; now and then one rater differs."""
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        truth = draw.choice(("toxic", "fine", "unsure"))
        rows.append([truth] * raters)
        if draw.random() < 0.05:
            rows[-1][draw.randrange(raters)] = draw.choice(("toxic", "fine", "unsure"))
    return rows


def test_the_published_table_of_four_raters(gatemark: Run, write: Write) -> None:
    ran = gatemark("score", "agreement", "--table", write(RAW_4_RATERS), "--json")
    assert ran.code == 3
    assert ran.json["n"] == 11
    assert ran.json["percent_agreement"] == pytest.approx(0.8181818, abs=5e-8)
    assert ran.json["fleiss_kappa"] == pytest.approx(0.76117, abs=5e-6)
    assert ran.json["conger_kappa"] == pytest.approx(0.76282, abs=5e-6)
    assert ran.json["ac1"] == pytest.approx(0.77544, abs=5e-6)
    assert ran.json["krippendorff_alpha"] == pytest.approx(0.74342, abs=5e-6)
    judged, delta = ran.json["intervals"]["ac1"]
    assert judged["low"] < delta["low"]
    assert delta["method"] == "delta"
    assert (round(delta["low"], 3), delta["high"]) == (0.461, 1.0)
    assert ran.json["raters"]["Rater1"]["missing"] == 3
    assert ran.json["labels"]["5"] == {
        "uses": 3,
        "items": 1,
        "agreement": 1.0,
        "low": pytest.approx(0.3424, abs=1e-3),
        "high": 1.0,
    }


def test_three_verdicts(gatemark: Run, write: Write) -> None:
    good = good_rows()
    assert gatemark("score", "agreement", "--table", write(csv_of(good))).code == 0
    draw = random.Random(3)
    bad = [[draw.choice("xy") for _ in range(3)] for _ in range(200)]
    ran = gatemark("score", "agreement", "--table", write(csv_of(bad)), "--json")
    assert (ran.code, ran.json["verdict"]) == (1, "fail")
    few = gatemark("score", "agreement", "--table", write(csv_of(good[:20])), "--json")
    assert (few.code, few.json["verdict"]) == (3, "inconclusive")
    assert any("item_count must be >= 30" in one for one in few.json["blockers"])


def test_a_bound_inside_the_interval_leaves_the_verdict_open(gatemark: Run, write: Write) -> None:
    table = write(csv_of(good_rows()))
    found = gatemark("score", "agreement", "--table", table, "--json").json
    low, value = found["intervals"]["fleiss_kappa"][0]["low"], found["fleiss_kappa"]
    within = str((low + value) / 2)
    ran = gatemark("score", "agreement", "--table", table, "--kappa-gate", within, "--json")
    assert ran.code == 3
    assert any("fleiss_kappa (interval)" in one for one in ran.json["blockers"])


def test_the_alpha_gate_judges_tables_and_pairs(
    gatemark: Run, write: Write, write_jsonl: Callable[..., Path]
) -> None:
    table = write(csv_of(good_rows()))
    assert gatemark("score", "agreement", "--table", table, "--alpha-gate", "0.8").code == 0
    ran = gatemark("score", "agreement", "--table", table, "--alpha-gate", "0.9999", "--json")
    assert ran.code == 1
    labels = ("VALID", "REJECT")
    rows = [
        {"qid": f"Q{n}", "scholar": {"label": one}, "auditor": {"label": one}}
        for n in range(100)
        for one in [labels[n % 2]]
    ]
    rows[0]["auditor"] = {"label": "REJECT"}
    pairs = write_jsonl("p.jsonl", rows)
    assert gatemark("score", "agreement", "--pairs", pairs, "--alpha-gate", "0.9").code == 0
    assert gatemark("score", "agreement", "--pairs", pairs, "--alpha-gate", "0.99").code == 1


def as_long(rows: Sequence[Sequence[str]]) -> str:
    lines = [
        f"i{item}\tr{rater + 1}\t{label}"
        for item, row in enumerate(rows)
        for rater, label in enumerate(row)
        if label
    ]
    return "\n".join(["item\trater\tlabel", *lines]) + "\n"


def test_all_forms_of_one_table_give_the_same(gatemark: Run, write: Callable[..., Path]) -> None:
    rows = good_rows(60)
    rows[3][1] = rows[7][0] = ""
    wide = csv_of(rows)
    files = {
        "wide.csv": wide,
        "wide.tsv": wide.replace(",", "\t"),
        "excel.csv": "\ufeff" + wide.replace(",", ";").replace("\n", "\r\n"),
        "long.tsv": as_long(rows),
        "blanks.csv": wide.replace(",", " , "),
    }
    found = {}
    for name, text in files.items():
        document = gatemark("score", "agreement", "--table", write(text, name), "--json").json
        found[name] = {
            key: value
            for key, value in document.items()
            if key not in {"evidence", "result_id", "policy_digest"}
        }
    assert all(one == found["wide.csv"] for one in found.values())


def test_columns_are_chosen_by_name(gatemark: Run, write: Write) -> None:
    lines = ["text,ann,id,bob"]
    lines += [f'"some text, {n}",{"ab"[n % 2]},i{n},{"ab"[n % 2]}' for n in range(300)]
    table = write("\n".join(lines))
    ran = gatemark("score", "agreement", "--table", table)
    assert ran.code == 2
    assert "300" in ran.err
    assert "--raters NAME,NAME" in ran.err
    chosen = ("--item-column", "id", "--raters", "ann,bob", "--json")
    ran = gatemark("score", "agreement", "--table", table, *chosen)
    assert list(ran.json["raters"]) == ["ann", "bob"]
    assert ran.code == 0
    ran = gatemark("score", "agreement", "--table", table, "--raters", "ann,rob")
    assert ran.code == 2
    assert "has no column 'rob'; did you mean 'bob'?" in ran.err


def test_sealed_and_derived_again(gatemark: Run, write: Write, tmp_path: Path) -> None:
    store = tmp_path / "store"
    for text in (csv_of(good_rows()), RAW_4_RATERS):
        gatemark("score", "agreement", "--table", write(text), "--seal", "--store", store)
    verified = gatemark("ledger", "verify", "--rescore", "--store", store)
    assert verified.code == 0, verified.out + verified.err


def test_from_python(write: Write) -> None:
    report = public.score("agreement", table=write(csv_of(good_rows())), pa_gate=0.8)
    assert report.verdict == "pass"
    assert report.document["raters"].keys() == {"r1", "r2", "r3"}
    assert report.files["items.tsv"].startswith(b"item\tratings\tmajority\tshare\tr1\tr2\tr3\n")


def test_the_items_file_has_no_majority_in_a_tie_and_no_formula(
    gatemark: Run, write: Write, tmp_path: Path
) -> None:
    table = write("item,a,b,c\n=1+1,x,y,\n2,x,x,y\n3,,,\n")
    gatemark("score", "agreement", "--table", table, "--out", tmp_path / "out")
    lines = (tmp_path / "out/items.tsv").read_text().splitlines()[1:]
    assert lines == ["\\=1+1\t2\t\t0.5000\tx\ty\t", "2\t3\tx\t0.6667\tx\tx\ty", "3\t0\t\t\t\t\t"]


def test_options_that_a_form_would_ignore_are_refused(
    write: Write, write_jsonl: Callable[..., Path]
) -> None:
    table = write(csv_of(good_rows()))
    with pytest.raises(UsageError, match="--nic-policy does not apply to a table"):
        public.score("agreement", table=table, nic_policy="accept_agreed")
    row = {"qid": "Q", "scholar": {"label": "VALID"}, "auditor": {"label": "VALID"}}
    with pytest.raises(UsageError, match="--raters does not apply to pairs"):
        public.score("agreement", pairs=write_jsonl("p.jsonl", [row]), raters="a,b")
    with pytest.raises(UsageError, match="got pairs, table"):
        public.score("agreement", pairs=write_jsonl("p.jsonl", [row]), table=table)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("item,a,b\n1,x\n", "table.csv:2: has 2 cells, expected 3"),
        ("item,a,b\n,x,y\n", "table.csv:2: an item is 1 to 512 characters"),
        ("item,a,a\n1,x,y\n", "a column appears twice"),
        ("item,a,\n1,x,y\n", "a column has no name"),
        ("item,a\n1,x\n", 'got 1: "a"; put the labels of all raters into one file'),
        ("justonecolumn\n1\n", "expected a header"),
        ("item,a,b\n", "contains no items"),
        ("", "expected a header"),
        ("item,a,b\n1,x,y\n1,x,x\n", "table.csv:3: item '1' was seen before at line 2"),
        ("item,a,b\n1,x,y\n2,x,NA\n", "table.csv:3: 'NA' often means that there is no label"),
        ("item,a,b\n1,yes,Yes\n", "'Yes' and 'yes' (line 2) look alike"),
        ("item,a,b\n1,not_ok,not ok\n", "look alike"),
        ("item,a,b\n1,ok,\u043ek\n", r"'\u043ek' and 'ok' (line 2) look alike"),
        ("item,a,b\n1,ok,o\u200bk\n", "printable"),
        ('item,a,b\n1,"x,y\n2,x,y\n', "a quotation mark that is not closed"),
        ("item,rater,label\n1,ann,x\n1,ann,y\n1,bob,x\n", "the label of 'ann' for item '1'"),
        ("item,rater,label\n1,ann,x\n1,Ann,x\n", "the raters 'Ann' and 'ann'"),
        ("rater,label\nann,x\nbob,x\n", "needs columns for the item, the rater and the label"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(
    text: str, words: str, gatemark: Run, write: Write
) -> None:
    ran = gatemark("score", "agreement", "--table", write(text))
    assert ran.code == 2
    assert words in " ".join(ran.err.split())


def test_a_file_that_is_not_utf8_is_refused(gatemark: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("item,a,b\n1,größe,x\n".encode("latin-1"))
    ran = gatemark("score", "agreement", "--table", tmp_path / "t.csv")
    assert ran.code == 2
    assert "t.csv:2: is not UTF-8" in ran.err


def test_a_text_for_missing_labels(gatemark: Run, write: Write) -> None:
    rows = good_rows(100)
    rows[5][0] = "NA"
    table = write(csv_of(rows))
    ran = gatemark("score", "agreement", "--table", table, "--missing-text", "NA", "--json")
    assert ran.json["raters"]["r1"]["missing"] == 1
    assert "NA" not in ran.json["labels"]


def test_declared_labels(gatemark: Run, write: Callable[..., Path]) -> None:
    labels = write("labels: {toxic: reject, fine: accept, unsure: abstain}\n", "labels.yaml")
    table = write(csv_of(good_rows()))
    ran = gatemark("score", "agreement", "--table", table, "--labels", labels, "--json")
    # A third of the items has an abstention.
    assert ran.code == 1
    assert any("abstain_rate_any must be <= 0.02" in one for one in ran.json["blockers"])
    wrong = write("labels: {toxic: reject, fine: accept, unsur: abstain}\n", "labels.yaml")
    ran = gatemark("score", "agreement", "--table", table, "--labels", wrong)
    assert ran.code == 2
    assert "did you mean 'unsur'?" in ran.err


def test_a_declared_label_with_a_blank_at_its_end_is_refused(
    gatemark: Run, write: Callable[..., Path]
) -> None:
    labels = write('labels: {ok: accept, "ok ": reject}\n', "labels.yaml")
    ran = gatemark("score", "agreement", "--table", write(RAW_4_RATERS), "--labels", labels)
    assert ran.code == 2
    assert "label 'ok ' begins or ends with a blank" in ran.err


def test_excluded_lines_lower_coverage(gatemark: Run, write: Write) -> None:
    table = write(csv_of(good_rows()) + "i900,toxic\ni0,fine,fine,fine\n")
    choice = ("--on-bad-line", "exclude", "--on-duplicate", "first", "--json")
    ran = gatemark("score", "agreement", "--table", table, *choice)
    assert ran.code == 3
    assert (ran.json["rejected"], ran.json["duplicates"]) == (1, 1)


def test_expected_ids(gatemark: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    table = write(csv_of(good_rows()))
    pinned = tmp_path / "ids.txt"
    pinned.write_text("\n".join(f"i{n}" for n in range(201)))
    ran = gatemark("score", "agreement", "--table", table, "--expected-ids", pinned, "--json")
    assert (ran.code, ran.json["missing"]) == (3, 1)
    pinned.write_text("\n".join(f"i{n}" for n in range(199)))
    ran = gatemark("score", "agreement", "--table", table, "--expected-ids", pinned)
    assert ran.code == 2
    assert "'i199' is not among the expected ids" in ran.err


class TestNobodyIsFooled:
    """Tables that look well agreed and are not."""

    def verdict(self, rows: Sequence[Sequence[str]], write: Write, **options: Any) -> Any:
        return public.score("agreement", table=write(csv_of(rows)), **options)

    @pytest.mark.parametrize("rejections", [1, 5, 9, 15, 30])
    def test_a_rater_who_always_gives_one_label(self, rejections: int, write: Write) -> None:
        rows = [["bad" if n < rejections else "ok", "ok"] for n in range(300)]
        assert self.verdict(rows, write).verdict != "pass"

    @pytest.mark.parametrize("rejections", [9, 12, 30])
    def test_one_constant_rater_among_five(self, rejections: int, write: Write) -> None:
        rows = [["bad" if n < rejections else "ok"] * 4 + ["ok"] for n in range(300)]
        report = self.verdict(rows, write, kappa_gate=0.5, pa_gate=0.8)
        assert report.verdict == "inconclusive"
        assert any("r5 differs from the others on bad" in one for one in report.document["caveats"])

    def test_a_rater_who_leaves_the_hard_items_empty(self, write: Write) -> None:
        rows = [["bad", "bad", ""] if n < 12 else ["ok"] * 3 for n in range(300)]
        report = self.verdict(rows, write)
        assert report.verdict == "inconclusive"
        assert report.document["selective_missing"] == ["r3 left 12 of 12 items with bad empty"]

    def test_two_raters_who_leave_what_they_dispute_empty(self, write: Write) -> None:
        rows = [["bad", ""] if n < 12 else ["ok", "ok"] for n in range(300)]
        assert self.verdict(rows, write).verdict == "inconclusive"

    def test_a_rater_who_copies_another(self, write: Write) -> None:
        draw = random.Random(2)
        rows = []
        for _ in range(300):
            one = draw.choice(("a", "b"))
            rows.append([one, one, one if draw.random() < 0.9 else draw.choice(("a", "b"))])
        report = self.verdict(rows, write, pa_gate=0.5, kappa_gate=0.5)
        assert report.verdict == "inconclusive"
        assert report.document["copied_raters"] == ["r1 and r2 never differ"]

    def test_independent_raters_are_not_called_copies(self, write: Write) -> None:
        assert self.verdict(good_rows(), write).document["copied_raters"] == []

    def test_one_label_only(self, write: Write) -> None:
        rows = [["ok", "ok"]] * 25
        report = self.verdict(rows, write, min_items=1)
        assert report.verdict == "inconclusive"
        assert report.document["fleiss_kappa"] is None

    def test_one_label_on_many_items_passes_with_a_word_of_warning(self, write: Write) -> None:
        rows = [["VALID", "VALID"]] * 300
        report = self.verdict(rows, write)
        assert report.verdict == "pass"
        assert any("only VALID was used" in one for one in report.document["caveats"])

    def test_whoever_asks_for_two_labels_gets_no_pass_from_one(self, write: Write) -> None:
        rows = [["VALID", "VALID"]] * 300
        report = self.verdict(rows, write, min_labels=2)
        assert report.verdict == "inconclusive"
        assert report.document["blockers"] == ["label_count must be >= 2, got 1 (n=300)"]
        rows = [*rows, *[["ABSTAIN", "ABSTAIN"]] * 2]
        assert self.verdict(rows, write, min_labels=2).verdict == "inconclusive"
        rows = [*rows, *[["REJECT", "REJECT"]] * 60]
        assert self.verdict(rows, write, min_labels=2).verdict == "pass"

    def test_abstaining_together_is_not_agreement(self, write: Write) -> None:
        rows = [["ABSTAIN"] * 2 if n % 4 else ["ok", "ok"] for n in range(200)]
        assert self.verdict(rows, write).verdict == "fail"

    def test_many_empty_cells(self, write: Write) -> None:
        rows = [[*row[:2], ""] for row in good_rows()]
        rows[0][2] = rows[0][0]
        report = self.verdict(rows, write)
        assert report.verdict == "inconclusive"
        assert any("missing_rate must be <= 0.1" in one for one in report.document["blockers"])

    def test_a_column_without_labels_is_not_a_rater(self, write: Write) -> None:
        rows = [[*row, ""] for row in good_rows()]
        with pytest.raises(BadInputError, match="'r4' gave no label"):
            self.verdict(rows, write, missing_gate=1.0)
