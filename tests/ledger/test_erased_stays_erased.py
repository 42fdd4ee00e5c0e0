"""What was erased is gone, cannot come back, and ``verify`` looks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.samples import result

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import RefusedError
from gatemark.ledger.event import EventDraft
from gatemark.workspace import Workspace

Run = Callable[..., Any]
SECRET = b"a text about a person\n"


@pytest.fixture
def erased(tmp_path: Path, gatemark: Run) -> Path:
    store = tmp_path / "store"
    workspace = Workspace(store=str(store))
    workspace.keep(result("a"), [SECRET], {})
    workspace.store.close()
    for name in ("cache", "facts", "runs/0123"):
        (store / name).mkdir(parents=True)
        (store / name / "copy.json").write_bytes(SECRET)
    ran = gatemark("ledger", "erase", digest_bytes(SECRET), "--reason", "x", "--store", store)
    assert ran.code == 0, ran.err
    return store


def test_no_file_of_the_store_holds_it_any_more(erased: Path) -> None:
    holders = [path for path in erased.rglob("*") if path.is_file()]
    assert holders
    assert not [path for path in holders if SECRET in path.read_bytes()]


def test_it_cannot_come_back(erased: Path) -> None:
    workspace = Workspace(store=str(erased))
    with pytest.raises(RefusedError, match="was erased by event"):
        workspace.keep(result("b"), [SECRET], {})
    workspace.store.close()


def test_verify_says_where_it_is_still_there(erased: Path, gatemark: Run) -> None:
    ran = gatemark("ledger", "verify", "--store", erased)
    assert (ran.code, "what it held is gone" in ran.out) == (0, True)
    digest = digest_bytes(SECRET)
    plain = digest.removeprefix("sha256:")
    folder = erased / "blobs" / plain[:2]
    folder.mkdir(exist_ok=True)
    (folder / plain).write_bytes(SECRET)
    ran = gatemark("ledger", "verify", "--store", erased)
    assert (ran.code, f"{digest} was erased, but is in the store" in ran.out) == (3, True)


def test_beside_a_running_server_no_page_of_the_database_holds_it(
    tmp_path: Path, gatemark: Run
) -> None:
    """Others have the database open, so that its log is not removed when the command ends."""
    store = tmp_path / "store"
    server = Workspace(store=str(store))
    text = "a text about a person " * 20
    draft = EventDraft("noted", server.clock(), "ada", None, {"text": text})
    (noted,) = server.events.append([draft])
    ran = gatemark("ledger", "erase", str(noted.seq), "--reason", "x", "--store", store)
    assert ran.code == 0, ran.err
    holders = [path for path in store.rglob("*") if path.is_file()]
    assert len(holders) >= 2
    assert not [path for path in holders if b"about a person" in path.read_bytes()]
    server.store.close()
