from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LABELS = ("VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN")
Run = Callable[..., Any]
Write = Callable[..., Path]


def pair(
    qid: object, scholar: str = "VALID", auditor: str = "VALID", **more: Any
) -> dict[str, Any]:
    return {"qid": qid, "scholar": {"label": scholar}, "auditor": {"label": auditor}, **more}


def judgement(qid: object, label: str = "VALID", **more: Any) -> dict[str, Any]:
    return {"qid": qid, "label": label, **more}


def good_pairs(n: int = 200) -> list[dict[str, Any]]:
    return [pair(f"Q{i:04d}", *([LABELS[i % 3]] * 2)) for i in range(n)]


def by_definition(rows: list[dict[str, Any]], gates: tuple[float, float, float]) -> dict[str, Any]:
    """The seven fields straight from the written definition, in plain arithmetic."""
    n = len(rows)
    first = [row["scholar"]["label"] for row in rows]
    second = [row["auditor"]["label"] for row in rows]
    observed = sum(a == b for a, b in zip(first, second, strict=True)) / n
    chance = sum(first.count(label) / n * (second.count(label) / n) for label in LABELS)
    kappa = (observed - chance) / (1 - chance)
    abstain = first.count("ABSTAIN") / n
    pa_gate, kappa_gate, abstain_gate = gates
    return {
        "n": n,
        "percent_agreement": round(observed, 4),
        "kappa": round(kappa, 4),
        "abstain_rate": round(abstain, 4),
        "disagreements": sum(a != b for a, b in zip(first, second, strict=True)),
        "gates": {"pa": pa_gate, "kappa": kappa_gate, "abstain": abstain_gate},
        "pass": observed >= pa_gate and kappa >= kappa_gate and abstain <= abstain_gate,
    }


@pytest.mark.parametrize("seed", range(40))
def test_clean_inputs_give_the_sources_seven_fields(
    seed: int, gatemark: Run, write_jsonl: Write
) -> None:
    draw = random.Random(seed)
    agree = draw.uniform(0.6, 1.0)
    weights = [draw.uniform(0.2, 1) for _ in range(3)] + [draw.choice([0, 0.01, 0.1])]
    rows = []
    for number in range(draw.randint(60, 400)):
        scholar = draw.choices(LABELS, weights)[0]
        clash = draw.choice(LABELS[:3])
        auditor = scholar if draw.random() < agree and scholar != "ABSTAIN" else clash
        rows.append(pair(f"Q{number}", scholar, auditor))
    ran = gatemark("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--json")
    expected = by_definition(rows, (0.90, 0.75, 0.02))
    assert {key: ran.json[key] for key in expected} == expected
    assert ran.code == (0 if expected["pass"] else 1)


def test_exit_0_and_the_disagreements_file(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    rows = [*good_pairs(), pair("Z9", "VALID", "REJECT"), pair("A1", "NOT_IN_CONTEXT", "VALID")]
    ran = gatemark(
        "score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--out", tmp_path / "deep/er"
    )
    assert ran.code == 0
    assert "PASS" in ran.out
    assert (tmp_path / "deep/er/consistency_disagreements.tsv").read_text() == (
        "qid\tscholar\tauditor\tfinal\twhy\n"
        "Z9\tVALID\tREJECT\tREJECT\tauditor_veto\n"
        "A1\tNOT_IN_CONTEXT\tVALID\tVALID\tauditor_ok\n"
    )


def test_no_cell_of_the_disagreements_file_is_a_formula(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    rows = [*good_pairs(), *(pair(f"{sign}1+1", "VALID", "REJECT") for sign in "=+-@")]
    pairs = write_jsonl("p.jsonl", rows)
    gatemark("score", "agreement", "--pairs", pairs, "--out", tmp_path)
    lines = (tmp_path / "consistency_disagreements.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[0] for line in lines] == [f"\\{sign}1+1" for sign in "=+-@"]


def test_a_stale_disagreements_file_is_rewritten(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    stale = tmp_path / "consistency_disagreements.tsv"
    stale.write_text("old news\n")
    gatemark(
        "score", "agreement", "--pairs", write_jsonl("p.jsonl", good_pairs()), "--out", tmp_path
    )
    assert stale.read_text() == "qid\tscholar\tauditor\tfinal\twhy\n"


def test_exit_1_when_a_gate_fails(gatemark: Run, write_jsonl: Write) -> None:
    rows = [pair(f"Q{i}", LABELS[i % 3], LABELS[(i * i + i // 7) % 3]) for i in range(100)]
    ran = gatemark("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--json")
    assert ran.code == 1
    assert ran.json["verdict"] == "fail"
    assert any("percent_agreement must be >= 0.9" in blocker for blocker in ran.json["blockers"])


def test_exit_3_when_it_could_not_be_judged(gatemark: Run, write_jsonl: Write) -> None:
    rows = [pair(f"Q{i}") for i in range(20)]
    ran = gatemark("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--json")
    assert ran.code == 3
    assert ran.json["verdict"] == "inconclusive"
    assert ran.json["pass"] is False


def test_fifty_of_fifty_on_one_label_passes_with_kappa_null(
    gatemark: Run, write_jsonl: Write
) -> None:
    rows = [pair(f"Q{i}") for i in range(50)]
    ran = gatemark("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--json")
    assert (ran.code, ran.json["kappa"], ran.json["ac1"]) == (0, None, 1.0)
    assert ran.json["kappa_undefined_reason"]


def test_ninety_eight_agreements_and_two_splits_leave_a_label_open(
    gatemark: Run, write_jsonl: Write
) -> None:
    rows = [pair(f"Q{i}") for i in range(98)] + [
        pair("X", "REJECT", "VALID"),
        pair("Y", "VALID", "REJECT"),
    ]
    ran = gatemark("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--json")
    assert ran.json["kappa"] == pytest.approx(-0.0101)
    assert ran.json["kappa_low_information"] is True
    assert ran.code == 3
    assert (
        "label_agreement_min must be >= 0.5, got 0 (n=2); worst in REJECT" in (ran.json["blockers"])
    )


def test_the_auditors_abstentions_count(gatemark: Run, write_jsonl: Write) -> None:
    rows = good_pairs(60) + [pair(f"A{i}", "VALID", "ABSTAIN") for i in range(3)]
    ran = gatemark("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--json")
    assert ran.code == 1
    assert ran.json["abstain_rate"] == 0.0
    assert ran.json["abstain"] == {
        "scholar": 0.0,
        "auditor": pytest.approx(3 / 63),
        "either": pytest.approx(3 / 63),
    }
    assert any("abstain_rate_either" in blocker for blocker in ran.json["blockers"])


def test_nine_of_eleven_unmatched_ids_is_not_a_pass(gatemark: Run, write_jsonl: Write) -> None:
    scholar = write_jsonl("s.jsonl", [judgement(f"Q{i}") for i in range(11)])
    auditor = write_jsonl("a.jsonl", [judgement(f"Q{i}") for i in range(2)])
    arguments = ("score", "agreement", "--scholar", scholar, "--auditor", auditor, "--json")
    refused = gatemark(*arguments)
    assert refused.code == 2
    assert "s.jsonl:3: id 'Q2' has no counterpart" in refused.err
    counted = gatemark(*arguments, "--on-unpaired", "exclude")
    assert counted.code == 3
    assert counted.json["unmatched"] == {"scholar": 9, "auditor": 0}
    assert counted.json["missing"] == 9


@pytest.mark.parametrize(
    ("first", "second", "hint"),
    [
        ("caf\u00e9", "cafe\u0301", r"a.jsonl:1 has 'cafe\u0301', and this is 'caf\xe9'"),
        ("Q1", "q1 ", "a.jsonl:1 has 'q1 ', and this is 'Q1'"),
        ("Q1", "Q2", None),
    ],
)
def test_ids_that_only_look_the_same_are_told_apart(
    first: str, second: str, hint: str | None, gatemark: Run, write_jsonl: Write
) -> None:
    sides = ("--scholar", write_jsonl("s.jsonl", [judgement(first)]))
    ran = gatemark(
        "score", "agreement", *sides, "--auditor", write_jsonl("a.jsonl", [judgement(second)])
    )
    assert ran.code == 2
    assert f"s.jsonl:1: id {first!r} has no counterpart" in ran.err
    assert (hint in ran.err) if hint else ("this is" not in ran.err)


def test_two_files_and_merged_pairs_give_the_same_numbers(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    draw = random.Random(5)
    rows = [
        pair(
            f"Q{i:03d}",
            draw.choice(LABELS),
            draw.choice(LABELS),
            flags={"provenance_violation": draw.random() < 0.2},
            answer_json={"citations": draw.choice([[], ["p1"], ["p9"]])},
            retrieved_ids=["p1", "p2"],
        )
        for i in range(120)
    ]
    scholar, auditor = [], []
    for row in rows:
        scholar.append(judgement(row["qid"], row["scholar"]["label"], flags=row["flags"]))
        auditor.append(
            judgement(
                row["qid"],
                row["auditor"]["label"],
                answer_json=row["answer_json"],
                retrieved_ids=row["retrieved_ids"],
            )
        )
    draw.shuffle(auditor)
    merged = gatemark(
        "score",
        "agreement",
        "--pairs",
        write_jsonl("p.jsonl", rows),
        "--json",
        "--out",
        tmp_path / "m",
    )
    joined = gatemark(
        *("score", "agreement", "--scholar", write_jsonl("s.jsonl", scholar)),
        *("--auditor", write_jsonl("a.jsonl", auditor), "--json", "--out", tmp_path / "j"),
    )
    ignored = {"evidence", "result_id", "checks"}
    assert {k: v for k, v in merged.json.items() if k not in ignored} == {
        k: v for k, v in joined.json.items() if k not in ignored
    }
    name = "consistency_disagreements.tsv"
    assert (tmp_path / "m" / name).read_text() == (tmp_path / "j" / name).read_text()


def test_agreeing_rows_with_a_hard_flag_are_arbitrated_too(
    gatemark: Run, write_jsonl: Write
) -> None:
    rows = good_pairs()
    rows[0]["flags"] = {"provenance_violation": True}
    ran = gatemark("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--json")
    assert ran.json["why"]["hard_flag"] == 1
    assert ran.json["flagged_not_rejected"] == 0
    assert sum(ran.json["finals"].values()) == sum(ran.json["why"].values()) == 200


def test_judges_of_different_evidence_hold_the_verdict_open(
    gatemark: Run, write_jsonl: Write
) -> None:
    labels = [LABELS[i % 3] for i in range(60)]
    scholar = [judgement(f"Q{i}", label, retrieved_ids=["p1"]) for i, label in enumerate(labels)]
    auditor = [judgement(f"Q{i}", label, retrieved_ids=["p1"]) for i, label in enumerate(labels)]
    auditor[7]["retrieved_ids"] = ["p2"]
    ran = gatemark(
        *("score", "agreement", "--scholar", write_jsonl("s.jsonl", scholar)),
        *("--auditor", write_jsonl("a.jsonl", auditor), "--json"),
    )
    assert ran.code == 3
    assert ran.json["different_evidence"] == ["Q7"]


def lines_of(cells: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    rows = [labels for labels, count in cells.items() for _ in range(count)]
    return [pair(f"Q{number:04d}", *labels) for number, labels in enumerate(rows)]


V, R, A = "VALID", "REJECT", "ABSTAIN"


@pytest.mark.parametrize(
    ("cells", "gates", "code"),
    [
        # Percent agreement: 90 of 100, then one less.
        ({(V, V): 45, (R, R): 45, (V, R): 10}, ("--kappa-gate", "0.5"), 0),
        ({(V, V): 45, (R, R): 44, (V, R): 11}, ("--kappa-gate", "0.5"), 1),
        # Kappa: p_o = 70/80, p_e = 1/2, so 3/4; then one disagreement more.
        ({(V, V): 35, (R, R): 35, (V, R): 5, (R, V): 5}, ("--pa-gate", "0.5"), 0),
        ({(V, V): 35, (R, R): 34, (V, R): 5, (R, V): 6}, ("--pa-gate", "0.5"), 1),
        # Abstentions: 2 of 100, whoever abstains, then 3.
        ({(V, V): 50, (R, R): 48, (A, A): 1, (V, A): 1}, (), 0),
        ({(V, V): 50, (R, R): 47, (A, A): 2, (V, A): 1}, (), 1),
        # Kappa 0/0: the Wilson interval of 35 of 35 begins at .9011, that of 34 at .8985.
        ({(V, V): 35}, (), 0),
        ({(V, V): 34}, (), 3),
        # Low information: kappa is below its bound, and so is AC1 of 6 of 10 at chance.
        ({(V, V): 6, (V, R): 4}, ("--pa-gate", "0.1"), 1),
    ],
)
def test_each_gate_on_its_line_and_beyond_it(
    cells: dict[tuple[str, str], int],
    gates: tuple[str, ...],
    code: int,
    gatemark: Run,
    write_jsonl: Write,
) -> None:
    path = write_jsonl("p.jsonl", lines_of(cells))
    assert gatemark("score", "agreement", "--pairs", path, *gates).code == code


@pytest.mark.parametrize(("junk", "code"), [(1, 0), (2, 3)])
def test_coverage_on_its_line_and_beyond_it(
    junk: int, code: int, gatemark: Run, write_jsonl: Write
) -> None:
    path = write_jsonl("p.jsonl", [*good_pairs(100 - junk), *["junk"] * junk])
    call = ("score", "agreement", "--pairs", path, "--on-bad-line", "exclude")
    assert gatemark(*call, "--coverage-gate", "0.99").code == code
    assert gatemark(*call).code == 3


@pytest.mark.parametrize(
    ("scholar_answer", "auditor_answer", "code"),
    [
        ({"claim": "A", "text": "one"}, {"text": "one", "claim": "A"}, 0),
        ({"claim": "A", "text": "one"}, {"claim": "A", "text": "two"}, 3),
        ({"claim": "A"}, {"claim": "A", "steps": [1]}, 3),
        ({}, {"claim": "A"}, 3),
        (None, {}, 3),
        ({"x": [1.0, {"y": 1e16}]}, {"x": [1, {"y": 10**16}]}, 0),
        ({"x": 1.5, "y": "\u00e9"}, {"y": "\u00e9", "x": 1.5}, 0),
        ({"x": 1}, {"x": True}, 3),
        ({"x": "1"}, {"x": 1}, 3),
    ],
)
def test_the_same_answer_means_all_of_it(
    scholar_answer: Any, auditor_answer: Any, code: int, gatemark: Run, write_jsonl: Write
) -> None:
    labels = [("VALID", "REJECT")[i % 2] for i in range(60)]
    sides = [
        [judgement(f"Q{i}", label, answer_json=answer) for i, label in enumerate(labels)]
        for answer in (scholar_answer, auditor_answer)
    ]
    ran = gatemark(
        *("score", "agreement", "--scholar", write_jsonl("s.jsonl", sides[0])),
        *("--auditor", write_jsonl("a.jsonl", sides[1]), "--json"),
    )
    assert ran.code == code
    assert bool(ran.json["different_evidence"]) == (code == 3)


def test_a_file_cannot_agree_with_itself(gatemark: Run, write_jsonl: Write, tmp_path: Path) -> None:
    path = write_jsonl("s.jsonl", [judgement(f"Q{i}", LABELS[i % 3]) for i in range(60)])
    linked = tmp_path / "linked.jsonl"
    linked.symlink_to(path)
    for other in (path, linked):
        ran = gatemark("score", "agreement", "--scholar", path, "--auditor", other)
        assert ran.code == 2
        assert "scholar and auditor are the same file" in ran.err


def test_personal_data_in_a_reason_is_flagged_by_id_and_not_echoed(
    gatemark: Run, write_jsonl: Write
) -> None:
    rows = good_pairs()
    rows[3]["auditor"]["reason"] = "ask bob@example.org about it"
    ran = gatemark("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--json")
    assert ran.code == 0
    assert ran.json["personal_data"] == ["Q0003 (auditor: email)"]
    assert "bob@" not in ran.out
    assert any("personal_data_count" in caveat for caveat in ran.json["caveats"])


def test_a_third_validator_gives_krippendorffs_alpha_over_all(
    gatemark: Run, write_jsonl: Write
) -> None:
    files = {
        name: write_jsonl(f"{name}.jsonl", [judgement(f"Q{i}", LABELS[i % 3]) for i in order])
        for name, order in (("scholar", range(60)), ("auditor", range(59, -1, -1)))
    }
    third = write_jsonl("third.jsonl", [judgement(f"Q{i}", LABELS[(i + 1) % 3]) for i in range(30)])
    arguments = [
        *("score", "agreement", "--scholar", files["scholar"], "--auditor", files["auditor"]),
        *("--validator", f"referee={third}", "--json"),
    ]
    ran = gatemark(*arguments)
    assert ran.code == 0
    assert ran.json["krippendorff_alpha"] < 1
    assert ran.json["kappa"] == 1.0
    assert ran.json["unrated"] == {"referee": 30}


def test_what_a_third_validator_saw_counts_like_what_the_others_saw(
    gatemark: Run, write_jsonl: Write
) -> None:
    def side(name: str, **more: Any) -> Path:
        rows = [judgement(f"Q{i}", LABELS[i % 3]) for i in range(60)]
        rows[0] |= more
        return write_jsonl(f"{name}.jsonl", rows)

    def score(*validator: str) -> Any:
        first, second = side("s", retrieved_ids=["p1"]), side("a")
        call = ("score", "agreement", "--scholar", first, "--auditor", second, "--json")
        return gatemark(*call, *validator)

    assert score().json["finals"] == {"REJECT": 40, "VALID": 20}
    flagged = side("f", flags={"provenance_violation": True}, reason="ask bob@example.org")
    ran = score("--validator", f"referee={flagged}")
    assert ran.json["finals"] == {"REJECT": 41, "VALID": 19}
    assert ran.json["why"]["hard_flag"] == 1
    assert ran.json["personal_data"] == ["Q0 (referee: email)"]
    elsewhere = side("e", retrieved_ids=["p2"])
    ran = score("--validator", f"referee={elsewhere}")
    assert ran.code == 3
    assert ran.json["different_evidence"] == ["Q0"]
    stranger = write_jsonl("x.jsonl", [judgement("Q0"), judgement("other")])
    ran = score("--validator", f"referee={stranger}")
    assert ran.code == 2
    assert "x.jsonl:2: id 'other' has no counterpart" in ran.err
    ran = score("--validator", f"referee={stranger}", "--on-unpaired", "exclude")
    assert ran.code == 3
    assert ran.json["unmatched"] == {"scholar": 0, "auditor": 0, "referee": 1}


BAD_LINES = {
    "unknown label": (pair("Q", "valid"), 'p.jsonl:2: got "valid", allowed:'),
    "flags null": (pair("Q", flags=None), "p.jsonl:2: got null, expected object at $.flags"),
    "integer id": (pair(7), "p.jsonl:2: got 7, expected string at $.qid"),
    "tab in an id": (pair("a\tb"), "p.jsonl:2:"),
    "newline in an id": (pair("a\nb"), "p.jsonl:2:"),
    "not JSON": ("{", "p.jsonl:2: not JSON"),
    "duplicate id": (pair("Q1"), "p.jsonl:2: id 'Q1' was seen before at"),
}


@pytest.mark.parametrize(("bad", "message"), BAD_LINES.values(), ids=BAD_LINES)
def test_exit_2_with_file_and_line_and_nothing_written(
    bad: Any, message: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    path = write_jsonl("p.jsonl", [pair("Q1"), bad])
    ran = gatemark(
        *("score", "agreement", "--pairs", path, "--out", tmp_path / "out"),
        *("-o", tmp_path / "report.json", "--seal", "--store", tmp_path / "store"),
    )
    assert ran.code == 2
    assert ran.out == ""
    assert message in ran.err
    has_hint = "--labels FILE" in ran.err
    assert has_hint == ("allowed:" in message)
    assert ran.err.count("\n") == 1 + has_hint
    assert ran.err.startswith("gatemark: ")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["p.jsonl"]


@pytest.mark.parametrize("kind", ["empty", "missing", "directory", "truncated", "long line"])
def test_exit_2_for_files_that_cannot_be_read(kind: str, gatemark: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "directory":
        path.mkdir()
    elif kind == "truncated":
        path.write_bytes(gzip.compress(json.dumps(pair("Q")).encode() * 50)[:-12])
    elif kind == "long line":
        path.write_text(json.dumps(pair("Q", answer_json={"claim": "x" * 10_000_000})))
    ran = gatemark("score", "agreement", "--pairs", path, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"gatemark: {path}")
    assert ran.err.count("\n") == 1


def test_an_unknown_report_format_is_refused_before_anything_is_sealed(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    path = write_jsonl("p.jsonl", good_pairs())
    store = tmp_path / "store"
    ran = gatemark(
        *("score", "agreement", "--pairs", path, "--seal", "--store", store),
        *("-o", tmp_path / "report.pdf"),
    )
    assert ran.code == 2
    assert not store.exists()


@pytest.mark.parametrize("how", ["evidence", "linked evidence", "twice", "directory", "file"])
def test_reports_that_must_not_be_written_are_refused_before_anything_is_sealed(
    how: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    path = write_jsonl("p.jsonl", good_pairs())
    before = path.read_bytes()
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "linked.jsonl").symlink_to(path)
    outputs = {
        "evidence": ("-o", path),
        "linked evidence": ("-o", tmp_path / "linked.jsonl"),
        "twice": ("-o", tmp_path / "r.md", "-o", tmp_path / "folder.html" / ".." / "r.md"),
        "directory": ("-o", tmp_path / "r.md", "-o", tmp_path / "folder.html"),
        "file": ("-o", tmp_path / "r.md", "--out", path),
    }
    store = tmp_path / "store"
    call = ("score", "agreement", "--pairs", path, "--seal", "--store", store)
    ran = gatemark(*call, *outputs[how])
    assert ran.code == 2
    assert ran.out == ""
    assert path.read_bytes() == before
    assert not store.exists()
    assert not (tmp_path / "r.md").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no /dev/full")
def test_output_that_nobody_can_take_is_an_error_and_no_pass(write_jsonl: Write) -> None:
    path = write_jsonl("p.jsonl", good_pairs())
    program = "from gatemark.cli.main import run; run()"
    for call in (("score", "agreement", "--pairs", path, "--json"), ("validate", path)):
        with Path("/dev/full").open("w") as full:
            ran = subprocess.run(
                [sys.executable, "-c", program, *call],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert ran.returncode == 2
        assert ran.stderr == "gatemark: output: No space left on device\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "contains no ids"),
        (" \n\r\n", "contains no ids"),
        ("Q0000\nQ0001\nQ0000\n", "ids.txt:3: repeats id 'Q0000' of line 1"),
        ("Q0000\x0bQ0001\n", "ids.txt:1: id 'Q0000\\x0bQ0001' has a control character"),
    ],
)
def test_lists_of_pinned_ids_that_cannot_be_used_are_refused(
    text: str, words: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_bytes(text.encode())
    path = write_jsonl("p.jsonl", good_pairs())
    ran = gatemark("score", "agreement", "--pairs", path, "--expected-ids", ids)
    assert ran.code == 2
    assert words in ran.err


def test_pinned_ids_may_hold_whatever_an_id_may_hold(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    rows = good_pairs()
    rows[0]["qid"], rows[1]["qid"] = "a\u2028b", "c\u0085d"
    ids = tmp_path / "ids.txt"
    ids.write_bytes(("\ufeff" + "\r\n".join(row["qid"] for row in rows)).encode())
    path = write_jsonl("p.jsonl", rows)
    ran = gatemark("score", "agreement", "--pairs", path, "--expected-ids", ids, "--json")
    assert ran.code == 0
    assert ran.json["missing"] == 0


def test_bad_lines_can_be_counted_instead_but_never_pass(gatemark: Run, write_jsonl: Write) -> None:
    path = write_jsonl("p.jsonl", [*good_pairs(), pair("Q", "valid"), "{"])
    ran = gatemark("score", "agreement", "--pairs", path, "--json", "--on-bad-line", "exclude")
    assert (ran.code, ran.json["rejected"], ran.json["n"]) == (3, 2, 200)
    tolerant = gatemark(
        *("score", "agreement", "--pairs", path, "--json", "--on-bad-line", "exclude"),
        *("--coverage-gate", 0.98),
    )
    assert tolerant.code == 0


@pytest.mark.parametrize(("choice", "disagreements"), [("first", 0), ("last", 1)])
def test_duplicates_can_be_set_aside_by_choice(
    choice: str, disagreements: int, gatemark: Run, write_jsonl: Write
) -> None:
    path = write_jsonl("p.jsonl", [*good_pairs(), pair("Q0000", "REJECT", "VALID")])
    ran = gatemark("score", "agreement", "--pairs", path, "--json", "--on-duplicate", choice)
    assert ran.code == 3
    assert (ran.json["n"], ran.json["duplicates"]) == (200, 1)
    assert ran.json["disagreements"] == disagreements


def test_duplicate_ids_in_one_of_two_files_are_listed(gatemark: Run, write_jsonl: Write) -> None:
    scholar = write_jsonl("s.jsonl", [judgement("Q1"), judgement("Q2"), judgement("Q1")])
    auditor = write_jsonl("a.jsonl", [judgement("Q1"), judgement("Q2")])
    ran = gatemark("score", "agreement", "--scholar", scholar, "--auditor", auditor)
    assert ran.code == 2
    assert "s.jsonl:3: id 'Q1' was seen before at" in ran.err


def test_pinned_ids_make_a_dropped_row_visible(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    rows = good_pairs()
    pins = tmp_path / "ids.txt"
    pins.write_text("".join(f"{row['qid']}\n" for row in rows))
    whole = gatemark(
        *("score", "agreement", "--pairs", write_jsonl("p.jsonl", rows), "--json"),
        *("--expected-ids", pins),
    )
    assert whole.code == 0
    short = gatemark(
        *("score", "agreement", "--pairs", write_jsonl("q.jsonl", rows[1:]), "--json"),
        *("--expected-ids", pins),
    )
    assert (short.code, short.json["missing"]) == (3, 1)
    extra = gatemark(
        *("score", "agreement", "--pairs", write_jsonl("r.jsonl", [*rows, pair("X")])),
        *("--expected-ids", pins),
    )
    assert extra.code == 2
    assert "r.jsonl:201: id 'X' is not among the expected ids" in extra.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--pairs", "a", "--scholar", "b", "--auditor", "c"),
        ("--scholar", "b"),
        ("--pairs", "a", "--pa-gate", "banana"),
        ("--pairs", "a", "--pa-gate", "1.5"),
        ("--pairs", "a", "--pa-gate", "nan"),
        ("--pairs", "a", "--kappa-gate", "-inf"),
        ("--pairs", "a", "--kappa-gate", "-1.01"),
        ("--pairs", "a", "--abstain-gate", "٠.٥"),
        ("--pairs", "a", "--coverage-gate", "1e-400"),
        ("--scholar", "a", "--auditor", "b", "--validator", "x=c", "--validator", "x=d"),
        ("--pairs", "a", "--nic-policy", "lenient"),
        ("--pairs", "a", "--validator", "referee"),
        ("--pairs", "a", "-j", "0"),
        ("--pairs", "-", "--seal"),
    ],
)
def test_calls_that_make_no_sense_are_usage_errors(
    arguments: tuple[str, ...], gatemark: Run
) -> None:
    ran = gatemark("score", "agreement", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("gatemark: ")


def test_every_flag_has_an_environment_twin(
    gatemark: Run, write_jsonl: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEMARK_SCORE_AGREEMENT_PA_GATE", "0.5")
    path = write_jsonl("p.jsonl", good_pairs())
    assert gatemark("score", "agreement", "--pairs", path, "--json").json["gates"]["pa"] == 0.5


def test_a_waiver_lets_a_failing_rule_pass_and_is_shown(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    rows = good_pairs(60) + [pair(f"A{i}", "VALID", "ABSTAIN") for i in range(3)]
    waivers = tmp_path / "waivers.yaml"
    waivers.write_text(
        "- rule: agreement.abstain\n  owner: ada\n  reason: new auditor, retrained in June\n"
        "  expires_at: 2999-01-01T00:00:00Z\n"
    )
    path = write_jsonl("p.jsonl", rows)
    ran = gatemark("score", "agreement", "--pairs", path, "--json", "--waivers", waivers)
    assert ran.code == 0
    assert any("waived by ada" in caveat for caveat in ran.json["caveats"])
    waivers.write_text(waivers.read_text().replace("agreement.abstain", "agreement.typo"))
    stray = gatemark("score", "agreement", "--pairs", path, "--waivers", waivers)
    assert stray.code == 2
    assert "matches no rule" in stray.err


ALIAS_BOMB = "\n".join(
    ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
)
WAIVER = "- {rule: agreement.pa, owner: ada, reason: r, expires_at: END}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a list of waivers"),
        ("rule: agreement.pa", "must be a list of waivers"),
        ("[]", "holds no waivers"),
        ("- rule: x", "owner"),
        ("a: [", ":1:"),
        ("- {rule: a, owner: b, colour: c}", "colour"),
        ("- {rule: a, owner: b, owner: c}", "'owner' appears more than once"),
        (WAIVER.replace("END", "2099-01-31"), "such as 2099-01-31T00:00:00Z"),
        (WAIVER.replace("END", "2099-01-31 10:00:00"), "needs a time zone"),
        (WAIVER.replace("END", "9999-12-31T23:59:59-14:00"), "outside of the calendar"),
        (ALIAS_BOMB, "more than 1000000 values"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_unusable_waiver_files_are_refused(
    text: str, words: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    waivers = tmp_path / "waivers.yaml"
    waivers.write_text(text)
    path = write_jsonl("p.jsonl", good_pairs())
    ran = gatemark("score", "agreement", "--pairs", path, "--waivers", waivers)
    assert ran.code == 2
    assert str(waivers) in ran.err
    assert words in ran.err


def test_waiving_every_rule_does_not_make_a_pass_of_no_usable_record(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    rules = ("coverage", "pa", "kappa", "abstain", "flagged", "items", "label", "label_fails")
    checks = ("same_evidence", "independence", "refusal_token", "votes", "missing_votes")
    names = (*(f"agreement.{rule}" for rule in rules), *(f"hygiene.{check}" for check in checks))
    waivers = tmp_path / "waivers.yaml"
    waivers.write_text(
        "\n".join(
            f"- {{rule: {name}, owner: ada, reason: r, expires_at: 2999-01-01T00:00:00Z}}"
            for name in names
        )
    )
    call = ("score", "agreement", "--pairs", write_jsonl("p.jsonl", ["junk", "{}"]))
    ran = gatemark(*call, "--on-bad-line", "exclude", "--waivers", waivers, "--json")
    assert ran.code == 3
    assert ran.json["pass"] is False
    assert ran.json["blockers"] == [
        "not one item of the evidence is usable: nothing was judged, and nothing excuses that"
    ]


def test_a_waived_rule_leaves_no_red_test_case_of_its_substitutes(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    path = write_jsonl("p.jsonl", lines_of({(V, V): 6, (V, R): 4}))
    waivers, report = tmp_path / "waivers.yaml", tmp_path / "r.junit.xml"
    waivers.write_text(
        WAIVER.replace("agreement.pa", "agreement.kappa").replace("END", "2999-01-01T00:00:00Z")
    )
    loose = ("--pa-gate", "0.1", "--label-gate", "0", "--min-items", "1")
    call = ("score", "agreement", "--pairs", path, *loose, "-o", report)
    assert gatemark(*call).code == 1
    assert 'failures="2"' in report.read_text()
    assert gatemark(*call, "--waivers", waivers).code == 0
    text = report.read_text()
    assert 'failures="0" errors="0" skipped="2"' in text


def test_the_table_cuts_no_verdict_short(gatemark: Run, write_jsonl: Write) -> None:
    path = write_jsonl("p.jsonl", ["junk"])
    ran = gatemark("score", "agreement", "--pairs", path, "--on-bad-line", "exclude")
    assert ran.code == 3
    assert ran.out.count("INCONCLUSIVE (hold)\n") == 8
    assert ran.out.count("INCONCLUSIVE (warn)\n") == 2
