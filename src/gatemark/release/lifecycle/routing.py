"""Routing for serving systems: the route of an asset, and the version for a key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal

from gatemark.core.errors import UsageError
from gatemark.release.lifecycle.citations import Citations
from gatemark.release.lifecycle.decisions.citation import citation_problems
from gatemark.release.lifecycle.model.nouns import PRODUCTION, Noun, Pins
from gatemark.release.lifecycle.model.stages import CANARY, EVIDENCED, LANE, LANE_NOTE
from gatemark.release.lifecycle.model.state import EnvironmentState, LifecycleState, share_of
from gatemark.release.lifecycle.state_cache import asset_state_cache, describe_undecided
from gatemark.workspace import DEFAULT_STORE, Workspace

_SERVING: Final = frozenset({"shadow", "enabled", *CANARY})


class RouteTarget(Noun, frozen=True, kw_only=True):
    """A version to call, with all its pins."""

    version: str
    digest: str
    pins: Pins
    pins_digest: str
    """The digest of the pins. Use it as a cache key, so that no cache survives a rollback."""
    result_ids: tuple[str, ...]


class Sampled(Noun, frozen=True, kw_only=True):
    """A shadow: called for a share of keys; its answers are never shown."""

    target: RouteTarget
    sample_rate: float


class Split(Noun, frozen=True, kw_only=True):
    """Two arms measured side by side: a canary, or the watch after enabling.

    Each arm gets ``share`` of the keys. ``salt`` shuffles the keys for this rollout.
    """

    target: RouteTarget
    baseline: RouteTarget | None
    share: float
    salt: str
    is_watch: bool
    is_paused: bool


class Route(Noun, frozen=True, kw_only=True):
    """What to use now; ``primary`` is null, with a reason, if nothing may serve."""

    asset: str
    environment: str
    primary: RouteTarget | None
    fallback: RouteTarget | None
    canary: Split | None
    shadow: tuple[Sampled, ...]
    warnings: tuple[str, ...]
    revision: int
    reason: str | None
    undecided: tuple[str, ...] = ()
    """Events that this build cannot decide. What rests on them does not serve."""


def route_of(
    state: LifecycleState, environment: str, is_valid: Callable[[str], bool], now: datetime
) -> Route:
    """Return the route of an asset; ``is_valid`` tells whether a version's results still verify."""
    place = state.asset.place(environment)
    warnings: list[str] = []

    def target(version: str | None) -> RouteTarget | None:
        if version is None or state.asset.track(environment, version).stage not in EVIDENCED:
            return None
        unfit = _explain_unfit(state, environment, version, is_valid, now)
        if unfit is not None:
            warnings.append(f"{version} is left out: {unfit}")
            return None
        return _make_target(state, environment, version)

    primary = target(place.enabled)
    earlier = [
        name
        for name in reversed(place.lineage)
        if name != place.enabled and state.asset.versions[name].undecided is None
    ]
    reachable = earlier[: state.policy.rollback_window]
    fallback = next((found for found in map(target, reachable) if found is not None), None)
    if primary is None and place.enabled is not None and fallback is not None:
        warnings.append(f"{fallback.version} serves in its place")
        primary, fallback = fallback, None
    canary = None if primary is None else _split(state, place, environment, target)
    shadow = tuple(
        Sampled(target=found, sample_rate=state.policy.shadow_sample_rate)
        for track in place.tracks.values()
        if track.stage == "shadow" and track.paused is None
        if (found := target(track.version)) is not None
    )
    warnings.extend(_warn_of_claims(state, place))
    warnings.extend(_warn_of_break_glass(state, place, environment, now))
    return Route(
        asset=state.asset.name,
        environment=environment,
        primary=primary,
        fallback=fallback,
        canary=canary,
        shadow=shadow,
        warnings=tuple(dict.fromkeys(warnings)),
        revision=max(state.asset.revision, state.governance.revision),
        reason=None if primary is not None else _explain_empty(state, place, warnings),
        undecided=describe_undecided(state),
    )


def _explain_unfit(
    state: LifecycleState,
    environment: str,
    version: str,
    is_valid: Callable[[str], bool],
    now: datetime,
) -> str | None:
    """Return why a version must not serve although its stage allows it."""
    added_by = state.asset.versions[version].undecided
    if added_by is not None:
        return f"event {added_by} is {state.asset.undecided[added_by].why}"
    if not is_valid(version):
        return "its evidence does not verify"
    access = state.asset.track(environment, version).break_glass
    if access is not None and access.is_over(now):
        ended = f"{access.until:%Y-%m-%d %H:%M:%SZ}"
        return f"its break-glass time was over at {ended} and nobody had reviewed it"
    return None


def _make_target(state: LifecycleState, environment: str, version: str) -> RouteTarget:
    known = state.asset.versions[version]
    return RouteTarget(
        version=version,
        digest=known.digest,
        pins=known.pins,
        pins_digest=known.pins.digest,
        result_ids=state.asset.track(environment, version).result_ids,
    )


def _split(
    state: LifecycleState,
    place: EnvironmentState,
    environment: str,
    target: Callable[[str | None], RouteTarget | None],
) -> Split | None:
    rollout = place.rollout
    if rollout is None:
        return None
    track = state.asset.track(environment, rollout.version)
    is_watch = track.stage not in CANARY
    share = state.policy.watch_share if is_watch else share_of(track.stage)
    candidate, baseline = target(rollout.version), target(rollout.baseline)
    if candidate is None or share == 0 or (is_watch and baseline is None):
        return None
    return Split(
        target=candidate,
        baseline=baseline,
        share=share,
        salt=rollout.salt,
        is_watch=is_watch,
        is_paused=track.paused is not None,
    )


def _warn_of_claims(state: LifecycleState, place: EnvironmentState) -> Iterator[str]:
    """Yield each version that an event would have raised, and why it counts for nothing."""
    for track in place.tracks.values():
        if track.version not in state.asset.versions:
            yield f"{track.version} is left out: it was never added"
        elif track.undecided is not None:
            event = f"event {track.undecided}"
            why = state.asset.undecided[track.undecided].why
            if track.stage in _SERVING:
                yield f"{event} about {track.version} counts for nothing: {why}"
            else:
                yield f"{track.version} is left out: {event} is {why}"


def _warn_of_break_glass(
    state: LifecycleState, place: EnvironmentState, environment: str, now: datetime
) -> list[str]:
    if place.enabled is None:
        return []
    access = state.asset.track(environment, place.enabled).break_glass
    if access is None:
        return []
    words = f"{place.enabled} is live by break-glass of {access.actor} ({access.incident})"
    if access.reviewed_by is not None:
        return [f"{words}, reviewed by {access.reviewed_by}"]
    late = ", review is overdue" if now >= access.review_due else ""
    ends = "ended" if access.is_over(now) else "ends"
    return [f"{words}, not reviewed; it {ends} at {access.until:%Y-%m-%d %H:%M:%SZ}{late}"]


def _explain_empty(state: LifecycleState, place: EnvironmentState, warnings: Sequence[str]) -> str:
    if not state.asset.versions:
        return "the asset is not known"
    if place.enabled is not None:
        left_out = next(one for one in warnings if one.startswith(f"{place.enabled} is left out"))
        return f"{left_out} and nothing can take its place"
    return LANE_NOTE if state.asset.kind == LANE else "no version is enabled"


Lane = Literal["canary", "baseline", "primary"]


class Assignment(Noun, frozen=True, kw_only=True):
    """The version that serves one key; ``shadow`` are versions to call in addition."""

    asset: str
    key: str
    lane: Lane
    target: RouteTarget
    shadow: tuple[RouteTarget, ...] = ()


def place_of(salt: str, key: str) -> float:
    """Return the position of a key between 0 and 1, the same in every process and language.

    The first 53 bits of SHA-256 over salt, a zero byte and the key, as a fraction.
    """
    hashed = hashlib.sha256(salt.encode() + b"\x00" + key.encode()).digest()
    return (int.from_bytes(hashed[:8], "big") >> 11) / (1 << 53)


def assign_key(route: Route, key: str) -> Assignment:
    """Return the version that serves a key under a route; refuse if nothing may serve."""
    if route.primary is None:
        raise UsageError(
            f"{route.asset}: no version may serve in {route.environment}: {route.reason}"
        )
    lane: Lane = "primary"
    target = route.primary
    if route.canary is not None:
        place = place_of(route.canary.salt, key)
        if place < route.canary.share:
            lane, target = "canary", route.canary.target
        elif place >= 1 - route.canary.share and route.canary.baseline is not None:
            lane, target = "baseline", route.canary.baseline
    shadow = tuple(
        sampled.target
        for sampled in route.shadow
        if place_of(f"shadow/{sampled.target.digest}", key) < sampled.sample_rate
    )
    return Assignment(asset=route.asset, key=key, lane=lane, target=target, shadow=shadow)


__all__ = ["Route", "assign", "route"]


def route(workspace: Workspace, asset: str, environment: str = PRODUCTION) -> Route:
    """Return the current route, without versions whose results are missing, changed or failed."""
    workspace.existing_store()
    cache = asset_state_cache(workspace)
    with cache.lock:
        state = cache.read(asset)
        return route_of(
            state,
            environment,
            _make_validity_check(workspace, state, environment),
            workspace.clock(),
        )


def _make_validity_check(
    workspace: Workspace, state: LifecycleState, environment: str
) -> Callable[[str], bool]:
    evidence = Citations(workspace, state.asset.name, must_go_on=True)

    def is_valid(version: str) -> bool:
        track = state.asset.track(environment, version)
        digest = state.asset.versions[version].digest
        return bool(track.result_ids) and not citation_problems(track.result_ids, evidence, digest)

    return is_valid


@lru_cache(maxsize=64)
def _open_workspace(store: str) -> Workspace:
    return Workspace(store=store)


_routes: dict[tuple[str, str, str], tuple[int, Route]] = {}


def assign(
    asset: str, key: str, *, store: str | None = None, environment: str = PRODUCTION
) -> Assignment:
    """Return the version that serves a key now; for use in a serving process.

    A key keeps its version while a canary grows. The route is read again whenever the ledger has
    grown. Raises UsageError if nothing may serve.
    """
    place = store or os.environ.get("GATEMARK_STORE", DEFAULT_STORE)
    workspace = _open_workspace(place)
    head = workspace.existing_store().events.head().seq
    known = _routes.get((place, asset, environment))
    if known is None or known[0] != head:
        known = (head, route(workspace, asset, environment))
        _routes[place, asset, environment] = known
    return assign_key(known[1], key)
