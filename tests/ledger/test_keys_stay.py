"""A private key that an event announces is never lost, however the command ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import BadInputError, ConflictError
from gatemark.ledger.event import EventDraft, Head
from gatemark.ledger.keys import keyring_of, make_key, replace_lost_key, rotate_key, sign_checkpoint
from gatemark.ledger.stores.sql import SqlEvents
from gatemark.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(store=str(tmp_path / "store"), actor="ada")


def end_after_commit(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """The connection goes, or the user stops the command, right after the event was stored."""
    append = SqlEvents.append

    def cut(self: SqlEvents, drafts: Sequence[EventDraft], expected: Head | None = None) -> Any:
        added = append(self, drafts, expected)
        if not drafts[0].kind.startswith("key_"):
            return added
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(SqlEvents, "append", cut)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BadInputError("the connection is lost")])
@pytest.mark.parametrize("how", ["keygen", "rotate", "lost"])
def test_a_key_that_was_announced_stays(
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    how: str,
) -> None:
    path = tmp_path / "new.key"
    if how != "keygen":
        make_key(workspace, tmp_path / "old.key")
    end_after_commit(monkeypatch, error)
    acts: dict[str, Callable[[], object]] = {
        "keygen": lambda: make_key(workspace, path),
        "rotate": lambda: rotate_key(workspace, str(tmp_path / "old.key"), path),
        "lost": lambda: replace_lost_key(workspace, path, "the laptop was stolen"),
    }
    with pytest.raises(type(error)):
        acts[how]()
    public = Path(f"{path}.pub").read_text().strip()
    assert str(keyring_of(workspace.events).active) == public
    assert public.split("+")[0] in sign_checkpoint(workspace, str(path))


def test_a_key_that_no_event_announces_goes(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_key(workspace, tmp_path / "old.key")

    def refuse(*_: object, **__: object) -> None:
        raise ConflictError("another writer was faster")

    monkeypatch.setattr(SqlEvents, "append", refuse)
    with pytest.raises(ConflictError):
        rotate_key(workspace, str(tmp_path / "old.key"), tmp_path / "new.key")
    assert sorted(path.name for path in tmp_path.glob("*.key*")) == ["old.key", "old.key.pub"]


def test_a_key_stays_where_nobody_can_say_whether_it_was_announced(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_key(workspace, tmp_path / "old.key")

    def cut(*_: object, **__: object) -> None:
        monkeypatch.setattr(SqlEvents, "events", unreachable)
        raise BadInputError("the connection is lost")

    def unreachable(*_: object, **__: object) -> None:
        raise BadInputError("the server cannot be reached")

    monkeypatch.setattr(SqlEvents, "append", cut)
    with pytest.raises(BadInputError, match=r"new\.key was kept"):
        rotate_key(workspace, str(tmp_path / "old.key"), tmp_path / "new.key")
    assert (tmp_path / "new.key").exists()
