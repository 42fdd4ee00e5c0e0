"""How the drop of a suite is judged, and how far it may drop: alone, or in the pooled test."""

from __future__ import annotations

from gatemark.packs.pack import Pack
from gatemark.packs.suite_plugins import find_suite_plugin
from gatemark.packs.suite_spec import RegressionMode, SuiteSpec

DEFAULT_GUARD = 2.0
"""Default multiple of ``regression_max`` that one suite may drop by."""


def choose_regression_modes(pack: Pack) -> dict[str, RegressionMode]:
    """Return how each suite's drop is judged: as the pack says, or else as its kind does."""
    return {suite.id: suite.regression or _choose_default_mode(suite) for suite in pack.suites}


def _choose_default_mode(suite: SuiteSpec) -> RegressionMode:
    return "point" if suite.evidence is not None else find_suite_plugin(suite).default_regression


def find_margin(pack: Pack, suite: SuiteSpec) -> float:
    """Return the margin of a suite that is judged on its own."""
    return pack.regression_max if suite.regression_max is None else suite.regression_max


def find_guard(pack: Pack, suite: SuiteSpec) -> float:
    """Return the margin of a single suite in the pooled test; the pool has a smaller one."""
    if suite.regression_max is not None:
        return suite.regression_max
    if pack.guard_max is not None:
        return pack.guard_max
    return min(1.0, DEFAULT_GUARD * pack.regression_max)


def find_bound(pack: Pack, suite: SuiteSpec, pooled: frozenset[str]) -> float:
    """Return the margin of a suite, in the pooled test or on its own."""
    return find_guard(pack, suite) if suite.id in pooled else find_margin(pack, suite)
