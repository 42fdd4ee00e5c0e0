"""Which version serves a key: sticky by hash, growing without moving anybody back and forth.

A key falls on a fixed place between 0 and 1. The canary takes the lowest part, the baseline arm an
equally large highest part, and everybody between gets the live version without being measured.
When the share grows, keys only ever join; a new rollout has a new salt and deals anew.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from gatemark.core.errors import UsageError
from gatemark.lifecycle.decisions.route import Route, RouteTarget
from gatemark.lifecycle.model.nouns import Noun

Lane = Literal["canary", "baseline", "primary"]


class Assignment(Noun, frozen=True, kw_only=True):
    """What serves one key now. ``shadow`` are versions to call besides, unseen by the user."""

    asset: str
    key: str
    lane: Lane
    target: RouteTarget
    shadow: tuple[RouteTarget, ...] = ()


def place_of(salt: str, key: str) -> float:
    """Where a key falls between 0 and 1, the same in every process and language.

    The first 53 bits of SHA-256 over salt, a zero byte and the key, as a fraction.
    """
    hashed = hashlib.sha256(salt.encode() + b"\x00" + key.encode()).digest()
    return (int.from_bytes(hashed[:8], "big") >> 11) / (1 << 53)


def assign(route: Route, key: str) -> Assignment:
    """The version that serves a key under a route; refuses when nothing may serve."""
    if route.primary is None:
        raise UsageError(f"{route.asset}: nothing is routed in {route.environment}: {route.reason}")
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
