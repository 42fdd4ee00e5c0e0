from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.checks.agreement.records import JudgementPair
from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.core.result import Result, seal, verify_seal
from gatemark.evidence import fold_files
from gatemark.evidence.engines.local import LocalEngine
from gatemark.evidence.exam import ExamOutcome, ExamRun
from gatemark.evidence.exam_suite import suites
from gatemark.evidence.judge_exam import judge_exam
from gatemark.evidence.measures import measures
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.run_exam import examine_files
from gatemark.testing.exams import check_exam

LABELS = ("VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN")


def pairs(n: int, seed: int = 1) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    rows = []
    for number in range(n):
        scholar = draw.choices(LABELS, (70, 15, 14, 1))[0]
        auditor = scholar if draw.random() < 0.95 else draw.choice(LABELS)
        rows.append(
            {
                "qid": f"Q{number}",
                "scholar": {"label": scholar, "reason": f"line {number}: fine"},
                "auditor": {
                    "label": auditor,
                    "reason": "call 555 123 4567" if number == 5 else "x",
                },
                "flags": {"provenance_violation": draw.random() < 0.01},
            }
        )
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def exam_run(path: str, **more: Any) -> ExamRun:
    settings = {"reading": ReadingChoices(), "engine": LocalEngine(1), **more}
    return ExamRun("agreement", {}, [("pairs", path)], **settings)


def sat(path: str, *, jobs: int = 1, choices: ReadingChoices | None = None) -> ExamOutcome:
    choices = choices or ReadingChoices()
    return examine_files(exam_run(path, reading=choices, engine=LocalEngine(jobs)))


def judged(examined: ExamOutcome) -> Result:
    moment = datetime(2026, 11, 2, tzinfo=UTC)
    return judge_exam(
        "agreement", examined, actor="tester", started_at=moment, finished_at=moment
    ).result


def comparable(examined: ExamOutcome) -> bytes:
    return msgspec.json.encode((examined.report, examined.evidence))


def test_processes_and_shards_change_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "p.jsonl", pairs(3000))
    whole = comparable(sat(path))
    monkeypatch.setattr(fold_files, "SHARD_BYTES", 20_000)
    monkeypatch.setattr(fold_files, "ALONE_BYTES", 0)
    assert comparable(sat(path)) == whole
    assert comparable(sat(path, jobs=2)) == whole


def test_problems_in_a_later_shard_carry_the_line_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pairs(3000)
    rows[2900]["scholar"]["label"] = "maybe"
    rows[2950]["qid"] = "Q17"
    monkeypatch.setattr(fold_files, "SHARD_BYTES", 20_000)
    path = write(tmp_path / "p.jsonl", rows)
    with pytest.raises(BadInputError, match=r"p\.jsonl:2901: got \"maybe\""):
        sat(path)
    rows[2900]["scholar"]["label"] = "VALID"
    write(tmp_path / "p.jsonl", rows)
    with pytest.raises(BadInputError, match=r"p\.jsonl:2951: id 'Q17' .*p\.jsonl:18"):
        sat(path)


def test_a_hash_collision_is_not_taken_for_a_duplicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gatemark.evidence.record_names.xxhash.xxh3_64_digest", lambda name: name[:2] * 4
    )
    path = write(tmp_path / "p.jsonl", pairs(50))
    assert sat(path).evidence.usable == 50


def test_sealing_is_deterministic_and_one_changed_field_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", pairs(200))
    one, two = (judged(sat(path)) for _ in range(2))
    assert one.id == two.id
    verify_seal(one)
    fields = {name: getattr(one, name) for name in one.__struct_fields__ if name != "id"}
    del fields["stamp"]
    later = seal(**{**fields, "finished_at": datetime(2030, 1, 1, tzinfo=UTC)})
    assert later.id == one.id
    assert later.stamp != one.stamp
    for name, other in {"title": "x", "actor": "eve", "snapshots": ()}.items():
        assert seal(**{**fields, name: other}).stamp != one.stamp
        with pytest.raises(IntegrityError, match="does not verify"):
            verify_seal(msgspec.structs.replace(one, **{name: other}))


def exam() -> Any:
    suite = suites().get("agreement")
    return suite.build(suite.options(), measures())


def test_the_agreement_exam_keeps_the_laws_of_a_fold() -> None:
    check_exam(exam(), [msgspec.convert(row, JudgementPair) for row in pairs(80)])


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), max_size=40))
@settings(deadline=None, max_examples=25)
def test_any_labels_keep_the_laws_of_a_fold(labels: list[tuple[str, str]]) -> None:
    rows = [
        {"qid": f"Q{i}", "scholar": {"label": a}, "auditor": {"label": b}}
        for i, (a, b) in enumerate(labels)
    ]
    check_exam(exam(), [msgspec.convert(row, JudgementPair) for row in rows])


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_dropping_a_pinned_row_never_makes_a_pass(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    rows = pairs(60, seed=data.draw(st.integers(0, 50)))
    kept = data.draw(st.lists(st.sampled_from(range(60)), min_size=1, max_size=59, unique=True))
    path = write(tmp_path_factory.mktemp("drop") / "p.jsonl", [rows[i] for i in sorted(kept)])
    pinned = frozenset(row["qid"] for row in rows)
    examined = examine_files(exam_run(path, expected_ids=pinned))
    assert judged(examined).verdict != "pass"


@pytest.mark.parametrize("how", ["same size", "longer", "shorter", "another file", "gone"])
def test_a_file_that_changes_while_it_is_read_is_refused(how: str, tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", pairs(300))

    def change(_done: int, _total: int) -> None:
        place = Path(path)
        text = place.read_text()
        if how == "same size":
            place.write_text(text.replace("fine", "FINE"))
        elif how == "longer":
            place.write_text(text + "\n")
        elif how == "shorter":
            place.write_text(text[:-1])
        else:
            place.unlink()
        if how == "another file":
            place.write_text(text)

    with pytest.raises(BadInputError, match=r"p\.jsonl: (changed while|No such file)"):
        examine_files(exam_run(path, on_progress=change))
