"""The configuration of a calibration: grid, constraints and weights."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Final

from msgspec import Meta, Struct

from gatemark.core.errors import InvalidValueError
from gatemark.exams.runlog.records.run import Compat
from gatemark.exams.runlog.replay.token_gate import GateSettings

ROOM_WORDS: Final = 10
"""Minimum difference between the two word counts of a valid policy."""
Rate = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
Values = Annotated[tuple[int, ...], Meta(min_length=1)]


class SettingsGrid(Struct, frozen=True, forbid_unknown_fields=True):
    """The values to try for each of the four settings."""

    min_words: Values = (30, 40, 50, 60, 70)
    max_words: Values = (80, 100, 120, 140, 160)
    silence_ms: Values = (1000, 1500, 2000, 2500, 3000)
    max_wait_ms: Values = (4000, 5000, 6000, 7000, 8000)


class Constraints(Struct, frozen=True, forbid_unknown_fields=True):
    """Constraints that a policy must meet."""

    ttff_factor: Positive = 3.0
    spam_max_rate: Rate = 0.10
    timer_under_min_max_rate: Rate = 0.20
    chunk_p50_min_ratio: Positive = 0.6
    chunk_p50_min_words: Positive = 50
    chunk_p95_max_words: Positive = 180
    wait_factor: Positive = 1.5
    mean_flushes_max: Positive = 100
    failed_cases_max_rate: Rate = 0.05


class TieBreakWeights(Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of the measures in the weighted score."""

    ttff: Rate = 0.25
    flushes: Rate = 0.15
    chunk: Rate = 0.30
    spam: Rate = 0.15
    wait: Rate = 0.15


class SweepConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole calibration."""

    grid: SettingsGrid = SettingsGrid()
    constraints: Constraints = Constraints()
    spam_alpha: Positive = 0.7
    spam_alphas: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8)
    weights: TieBreakWeights = TieBreakWeights()
    compat: Compat = "gatemark"


class GatePolicy(Struct, frozen=True):
    """One combination of settings, with its number in the grid."""

    policy_id: str
    settings: GateSettings


def list_policies(grid: SettingsGrid) -> tuple[list[GatePolicy], list[str]]:
    """Return the valid policies of a grid in nested order, and the ids of invalid ones."""
    valid: list[GatePolicy] = []
    invalid: list[str] = []
    points = product(grid.min_words, grid.max_words, grid.silence_ms, grid.max_wait_ms)
    for number, (low, high, silence_ms, wait_ms) in enumerate(points):
        policy_id = f"policy_{number:04d}"
        try:
            settings = GateSettings(low, high, silence_ms, wait_ms)
        except InvalidValueError:
            invalid.append(policy_id)
            continue
        if low < high and wait_ms >= silence_ms and high >= low + ROOM_WORDS:
            valid.append(GatePolicy(policy_id, settings))
        else:
            invalid.append(policy_id)
    return valid, invalid
