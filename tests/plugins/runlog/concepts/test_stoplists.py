from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.plugins.runlog.concepts.stoplists import (
    CUIS_FILE,
    ENTITIES_FILE,
    METADATA_FILE,
    REPORT_FILE,
    count_frequencies,
    find_cutoff,
    read_stoplists,
    render_stoplists,
)

AT = "2025-12-21T10:00:00Z"


@pytest.mark.parametrize(
    ("cases", "threshold", "cutoff"), [(40, 0.9, 36), (10, 0.7, 7), (3, 0.9, 3), (11, 0.9, 10)]
)
def test_the_cutoff_is_the_smallest_count_that_reaches_the_share(
    cases: int, threshold: float, cutoff: int
) -> None:
    assert find_cutoff(cases, threshold) == cutoff


@pytest.mark.parametrize("threshold", [0.0, 1.01, float("nan")])
def test_a_share_outside_its_range_is_refused(threshold: float) -> None:
    with pytest.raises(InvalidValueError):
        find_cutoff(10, threshold)


def ten_cases() -> dict[str, tuple[set[str], set[str]]]:
    cases = {f"case-{at}": ({"c1"}, {"Plan", "plan"}) for at in range(10)}
    for at in range(9):
        cases[f"case-{at}"][0].add("c2")
    for at in range(8):
        cases[f"case-{at}"][0].add("c3")
    return cases


def test_concepts_in_nine_of_ten_cases_are_stopped_and_in_eight_kept() -> None:
    found = count_frequencies(ten_cases())
    assert found.list_stopped("CUI") == ["C1", "C2"]
    assert found.list_stopped("SURFACE") == ["plan"]
    assert [(row.concept, row.df_count) for row in found.rows] == [
        ("C1", 10),
        ("plan", 10),
        ("C2", 9),
        ("C3", 8),
    ]


def test_no_cell_of_the_report_is_a_formula() -> None:
    found = count_frequencies({"case-1": (set(), {"=1+1"})})
    report = render_stoplists(found, generated_at=AT, commit=None)[REPORT_FILE].decode()
    assert report.splitlines()[1].startswith("\\=1+1,")


def test_the_report_lists_every_concept_with_its_share_and_fate() -> None:
    report = render_stoplists(count_frequencies(ten_cases()), generated_at=AT, commit=None)
    lines = report[REPORT_FILE].decode().splitlines()
    assert lines[:5] == [
        "concept,type,df_count,df_fraction,status",
        "C1,CUI,10,1.0000,STOPLISTED",
        "plan,SURFACE,10,1.0000,STOPLISTED",
        "C2,CUI,9,0.9000,STOPLISTED",
        "C3,CUI,8,0.8000,KEPT",
    ]
    assert all(line.startswith("#") for line in lines[5:])
    assert "# CUI: 2 of 3 stoplisted" in lines


def test_hashed_files_do_not_depend_on_the_time(tmp_path: Path) -> None:
    counted = count_frequencies(ten_cases())
    early = render_stoplists(counted, generated_at=AT, commit=None)
    late = render_stoplists(counted, generated_at="2026-01-01T00:00:00Z", commit="abc")
    differing = {name for name in early if early[name] != late[name]}
    assert differing == {METADATA_FILE}


def test_written_lists_are_read_back_with_their_digests(tmp_path: Path) -> None:
    files = render_stoplists(count_frequencies(ten_cases()), generated_at=AT, commit="abc")
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    found = read_stoplists(str(tmp_path))
    assert found.cuis == {"C1", "C2"}
    assert found.entities == {"plan"}
    assert found.stop_cuis_hash == digest_bytes(files[CUIS_FILE])
    assert found.stoplist_df_report_hash == digest_bytes(files[REPORT_FILE])
    assert (found.generated_at, found.generated_by_commit) == (AT, "abc")


def test_lists_written_by_hand_may_hold_comments_and_any_case(tmp_path: Path) -> None:
    (tmp_path / ENTITIES_FILE).write_text("# mine\n Patient \n\n", encoding="utf-8")
    (tmp_path / CUIS_FILE).write_text("c0001\n", encoding="utf-8")
    found = read_stoplists(str(tmp_path))
    assert found.entities == {"patient"}
    assert found.cuis == {"C0001"}
    assert found.generated_at is None


def test_a_missing_list_is_an_error_and_no_empty_list(tmp_path: Path) -> None:
    (tmp_path / ENTITIES_FILE).write_text("", encoding="utf-8")
    with pytest.raises(BadInputError, match=r"stop_cuis\.txt: No such file"):
        read_stoplists(str(tmp_path))


def test_metadata_that_is_no_metadata_is_refused(tmp_path: Path) -> None:
    (tmp_path / ENTITIES_FILE).write_text("", encoding="utf-8")
    (tmp_path / CUIS_FILE).write_text("", encoding="utf-8")
    (tmp_path / METADATA_FILE).write_text("[]", encoding="utf-8")
    with pytest.raises(BadInputError, match="stoplists_metadata"):
        read_stoplists(str(tmp_path))


def test_no_cases_give_no_stoplists() -> None:
    with pytest.raises(BadInputError, match="at least one case"):
        count_frequencies({})


@settings(deadline=None, max_examples=60)
@given(entities=st.binary(max_size=40), cuis=st.binary(max_size=40), told=st.binary(max_size=40))
def test_any_bytes_are_stoplists_or_refused(entities: bytes, cuis: bytes, told: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = {ENTITIES_FILE: entities, CUIS_FILE: cuis, METADATA_FILE: told}
        for name, data in names.items():
            (Path(folder) / name).write_bytes(data)
        try:
            found = read_stoplists(folder)
        except BadInputError:
            return
        assert found.stop_cuis_hash == digest_bytes(cuis)
