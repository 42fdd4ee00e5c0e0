from __future__ import annotations

from pathlib import Path

import pytest

from gatemark.core.errors import BadInputError, UsageError
from gatemark.plugins.advisory.dry_run.folder import (
    build_run_path,
    make_card,
    refuse_other_runs,
    write_runs,
)

SERVICES = {"cron_n8n_event": ("command:/home/anna/advise.sh", "advise.sh")}
CARD = make_card(("own", "sha256:" + "0" * 64, True), "dry_run", SERVICES)


def test_a_card_names_endpoints_and_never_how_they_were_spelled(tmp_path: Path) -> None:
    write_runs(tmp_path, CARD, {"R1": b"one\n", "R2": b"two\n"})
    written = (tmp_path / "dry-run.card").read_text()
    assert "advise.sh" in written
    assert "anna" not in written
    assert build_run_path(tmp_path, "R1").read_bytes() == b"one\n"
    assert build_run_path(tmp_path, "R2").read_bytes() == b"two\n"


def test_runs_without_a_card_are_not_taken_over(tmp_path: Path) -> None:
    write_runs(tmp_path, CARD, {"R1": b""})
    (tmp_path / "dry-run.card").unlink()
    with pytest.raises(UsageError, match="runs without a card"):
        refuse_other_runs(tmp_path, CARD)


@pytest.mark.parametrize(
    "other",
    [
        make_card(("own", "sha256:" + "1" * 64, True), "dry_run", SERVICES),
        make_card(("own", "sha256:" + "0" * 64, True), "shadow", SERVICES),
        make_card(("own", "sha256:" + "0" * 64, True), "dry_run", {}),
        make_card(
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
    assert not (tmp_path / "new").exists()


def test_a_card_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dry-run.card").write_text("{}")
    with pytest.raises(BadInputError, match=r"dry-run.card: not the card of a dry run"):
        refuse_other_runs(tmp_path, CARD)
    (tmp_path / "dry-run.card").unlink()
    (tmp_path / "dry-run.card").mkdir()
    with pytest.raises(BadInputError, match="Is a directory"):
        refuse_other_runs(tmp_path, CARD)
