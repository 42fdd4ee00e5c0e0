"""The stores of accounts in a workspace."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from gatemark.accounts.nouns import SecretKey
from gatemark.accounts.stores.answers import SqlAnswers, SqlPageRuns
from gatemark.accounts.stores.identities import SqlIdentities
from gatemark.accounts.stores.people import SqlPeople
from gatemark.core.errors import UsageError
from gatemark.workspace import Workspace

KEY_BYTES: Final = 32
_PEOPLE: Final[WeakKeyDictionary[Workspace, SqlPeople]] = WeakKeyDictionary()


def people_of(workspace: Workspace) -> SqlPeople:
    """Return the accounts of people, with their sessions and tokens."""
    known = _PEOPLE.get(workspace)
    if known is not None:
        return known
    key, is_new = _secret_key(workspace.session_key_file)
    people = SqlPeople(workspace.store.database, key)
    if is_new:
        people.bind_rows()
    _PEOPLE[workspace] = people
    return people


def _secret_key(path: Path) -> tuple[SecretKey, bool]:
    """Return the key in a file, and whether it is new; a missing file is made, for its owner."""
    try:
        return _read_key(path), False
    except FileNotFoundError:
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = secrets.token_hex(KEY_BYTES)
    # Written whole under another name first: of two servers that start together, one wins.
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text + "\n")
    try:
        os.link(part, path)
    except FileExistsError:
        return _read_key(path), False
    finally:
        part.unlink()
    return _read_key(path), True


def _read_key(path: Path) -> SecretKey:
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError as error:
        raise UsageError(
            f"{path}: expected {2 * KEY_BYTES} hex digits, as a server made"
        ) from error
    if len(key) != KEY_BYTES:
        raise UsageError(f"{path}: expected {2 * KEY_BYTES} hex digits, got {2 * len(key)}")
    return SecretKey(key)


def identities_of(workspace: Workspace) -> SqlIdentities:
    """Return the people who sign in through a provider."""
    return workspace.store_of(SqlIdentities)


def answers_of(workspace: Workspace) -> SqlAnswers:
    """Return the answers that a repeated request gets again."""
    return workspace.store_of(SqlAnswers)


def page_runs_of(workspace: Workspace) -> SqlPageRuns:
    """Return the runs that were started from the page."""
    return workspace.store_of(SqlPageRuns)
