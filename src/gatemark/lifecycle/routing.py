"""Telling a serving system what to use: the route of an asset, and the version for one key."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

from gatemark.lifecycle.citations import Citations
from gatemark.lifecycle.decisions.assignment import Assignment
from gatemark.lifecycle.decisions.assignment import assign as assign_key
from gatemark.lifecycle.decisions.citation import citation_problems
from gatemark.lifecycle.decisions.route import Route, route_of
from gatemark.lifecycle.model.nouns import PRODUCTION
from gatemark.lifecycle.model.state import LifecycleState
from gatemark.lifecycle.state_cache import asset_state_cache
from gatemark.workspace import DEFAULT_STORE, Workspace

__all__ = ["Route", "assign", "route"]


def route(workspace: Workspace, asset: str, environment: str = PRODUCTION) -> Route:
    """What to use now. A version whose results are gone, changed or not passed is left out."""
    workspace.existing_store()
    books = asset_state_cache(workspace)
    with books.lock:
        state = books.read(asset)
        return route_of(
            state, environment, _validity(workspace, state, environment), workspace.clock()
        )


def _validity(
    workspace: Workspace, state: LifecycleState, environment: str
) -> Callable[[str], bool]:
    evidence = Citations(workspace, state.asset.name, must_go_on=True)

    def is_valid(version: str) -> bool:
        track = state.asset.track(environment, version)
        digest = state.asset.versions[version].digest
        return bool(track.result_ids) and not citation_problems(track.result_ids, evidence, digest)

    return is_valid


@lru_cache(maxsize=64)
def _workspace(store: str) -> Workspace:
    return Workspace(store=store)


_routes: dict[tuple[str, str, str], tuple[int, Route]] = {}


def assign(
    asset: str, key: str, *, store: str | None = None, environment: str = PRODUCTION
) -> Assignment:
    """Which version serves a key now, in a serving process.

    The same key keeps its version while a canary grows. The route is read anew whenever the
    ledger has grown. Raises UsageError when nothing may serve.
    """
    place = store or os.environ.get("GATEMARK_STORE", DEFAULT_STORE)
    workspace = _workspace(place)
    head = workspace.existing_store().events.head().seq
    known = _routes.get((place, asset, environment))
    if known is None or known[0] != head:
        known = (head, route(workspace, asset, environment))
        _routes[place, asset, environment] = known
    return assign_key(known[1], key)
