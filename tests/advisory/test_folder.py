from __future__ import annotations

from pathlib import Path

import pytest

from gatemark.core.errors import BadInputError, UsageError
from gatemark.flow.advisory_folder import card_of, refuse_other_runs, write_runs

SERVICES = {"cron_n8n_event": ("command:/home/anna/advise.sh", "advise.sh")}
CARD = card_of(("own", "sha256:" + "0" * 64, True), "dry_run", SERVICES)


def test_runs_are_kept_apart_and_the_last_one_stands_in_front(tmp_path: Path) -> None:
    write_runs(tmp_path, CARD, {"R1": b"one\n", "R2": b"two\n"})
    assert (tmp_path / "runs" / "R1.jsonl").read_bytes() == b"one\n"
    assert (tmp_path / "decisions.jsonl").read_bytes() == b"two\n"
    write_runs(tmp_path, CARD, {"R3": b"three\n"})
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "R1.jsonl",
        "R2.jsonl",
        "R3.jsonl",
    ]
    assert (tmp_path / "decisions.jsonl").read_bytes() == b"three\n"


def test_a_card_names_endpoints_and_never_how_they_were_spelled(tmp_path: Path) -> None:
    write_runs(tmp_path, CARD, {"R1": b""})
    written = (tmp_path / "run.json").read_text()
    assert "advise.sh" in written
    assert "anna" not in written


@pytest.mark.parametrize(
    "other",
    [
        card_of(("own", "sha256:" + "1" * 64, True), "dry_run", SERVICES),
        card_of(("own", "sha256:" + "0" * 64, True), "shadow", SERVICES),
        card_of(("own", "sha256:" + "0" * 64, True), "dry_run", {}),
        card_of(
            ("own", "sha256:" + "0" * 64, True),
            "dry_run",
            {"cron_n8n_event": ("command:other", "advise.sh")},
        ),
    ],
)
def test_runs_of_something_else_are_not_mixed_in(tmp_path: Path, other: object) -> None:
    write_runs(tmp_path, CARD, {"R1": b""})
    refuse_other_runs(tmp_path, CARD)
    with pytest.raises(UsageError, match="choose another --out"):
        refuse_other_runs(tmp_path, other)  # type: ignore[arg-type]


def test_a_folder_that_is_not_there_yet_is_fine(tmp_path: Path) -> None:
    refuse_other_runs(tmp_path / "new", CARD)


def test_a_card_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(BadInputError, match=r"run\.json: not the card of a dry run"):
        refuse_other_runs(tmp_path, CARD)
    (tmp_path / "run.json").unlink()
    (tmp_path / "run.json").mkdir()
    with pytest.raises(BadInputError, match="Is a directory"):
        refuse_other_runs(tmp_path, CARD)
