"""Attacks by hand on a store: found by verification, or without any effect that can be seen."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.hand_attacks import Outcome, cut_journal, on_files, on_rows, rolled_back
from tests.chaos.stores import keep
from tests.ledger.listed import write_everything


def holes(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [one for one in outcomes if one.is_hole or one.ended.is_bug or one.ended.is_hung]


def test_attacks_on_the_files_of_a_store_are_found(tmp_path: Path) -> None:
    kept = keep(tmp_path)
    assert rolled_back(kept, tmp_path).is_found
    assert not holes([cut_journal(kept, tmp_path, random.Random(3))])
    assert not holes(on_files(kept, tmp_path, 3, 8))


def test_changed_rows_of_postgresql_are_found(postgres_url: str, tmp_path: Path) -> None:
    write_everything(postgres_url, tmp_path)
    tried = list(on_rows(postgres_url, 3, 8))
    assert len(tried) >= 4
    assert not holes(tried)
