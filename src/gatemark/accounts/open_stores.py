"""The stores of accounts in a workspace."""

from __future__ import annotations

from gatemark.accounts.stores.answers import SqlAnswers, SqlPageRuns
from gatemark.accounts.stores.identities import SqlIdentities
from gatemark.accounts.stores.people import SqlPeople
from gatemark.workspace import Workspace


def people_of(workspace: Workspace) -> SqlPeople:
    """Return the accounts of people, with their sessions and tokens."""
    return workspace.store_of(SqlPeople)


def identities_of(workspace: Workspace) -> SqlIdentities:
    """Return the people who sign in through a provider."""
    return workspace.store_of(SqlIdentities)


def answers_of(workspace: Workspace) -> SqlAnswers:
    """Return the answers that a repeated request gets again."""
    return workspace.store_of(SqlAnswers)


def page_runs_of(workspace: Workspace) -> SqlPageRuns:
    """Return the runs that were started from the page."""
    return workspace.store_of(SqlPageRuns)
