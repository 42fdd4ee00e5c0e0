"""The stores of accounts in a workspace."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from gatemark.ledger.signing.outside_key import ensure_outside_key
from gatemark.server.accounts.nouns import SecretKey
from gatemark.server.accounts.stores.answers import SqlAnswers, SqlPageRuns, noting_events
from gatemark.server.accounts.stores.identities import SqlIdentities
from gatemark.server.accounts.stores.people import SqlPeople
from gatemark.workspace import Workspace

__all__ = ["answers_of", "identities_of", "noting_events", "page_runs_of", "people_of"]
_PEOPLE: Final[WeakKeyDictionary[Workspace, SqlPeople]] = WeakKeyDictionary()


def people_of(workspace: Workspace) -> SqlPeople:
    """Return the accounts of people, with their sessions and tokens."""
    known = _PEOPLE.get(workspace)
    if known is not None:
        return known
    key = SecretKey(ensure_outside_key(workspace.session_key_file))
    people = SqlPeople(workspace.store.database, key)
    _PEOPLE[workspace] = people
    return people


def identities_of(workspace: Workspace) -> SqlIdentities:
    """Return the people who sign in through a provider."""
    return workspace.store_of(SqlIdentities)


def answers_of(workspace: Workspace) -> SqlAnswers:
    """Return the answers that a repeated request gets again."""
    return workspace.store_of(SqlAnswers)


def page_runs_of(workspace: Workspace) -> SqlPageRuns:
    """Return the runs that were started from the page."""
    return workspace.store_of(SqlPageRuns)
