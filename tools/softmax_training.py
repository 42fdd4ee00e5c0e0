"""Softmax regression in numpy: small, full-batch, and without any chance in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

STEPS: Final = 600
DECIMALS: Final = 5

Matrix = NDArray[np.float64]


class Head(msgspec.Struct, frozen=True):
    """A linear layer and the names of what it tells apart."""

    names: tuple[str, ...]
    weights: Matrix
    bias: Matrix


def fit_head(rows: Matrix, targets: Sequence[str], *, ridge: float, rescale: bool) -> Head:
    """The softmax layer with the least ridge-penalised log loss, by accelerated descent.

    With ``rescale`` columns are brought to a common scale first, and the scale is folded into the
    weights; rows of length one need none.
    """
    names = tuple(sorted(set(targets)))
    wanted = np.array([[float(name == target) for name in names] for target in targets])
    centre = rows.mean(axis=0)
    spread = np.maximum(rows.std(axis=0), 1e-3) if rescale else np.ones(rows.shape[1])
    scaled = np.hstack([(rows - centre) / spread, np.ones((len(rows), 1))])
    penalty = np.full((scaled.shape[1], 1), ridge)
    penalty[-1] = 0.0
    curvature = 0.5 * float(np.linalg.norm(scaled, 2)) ** 2 / len(rows) + ridge
    weights = momentum = np.zeros((scaled.shape[1], len(names)))
    for step in range(STEPS):
        slope = scaled.T @ (softmax(scaled @ momentum) - wanted) / len(rows) + penalty * momentum
        stepped = momentum - slope / curvature
        momentum = stepped + step / (step + 3) * (stepped - weights)
        weights = stepped
    layer = weights[:-1] / spread[:, None]
    bias = weights[-1:] - centre[None, :] @ layer
    # Rounding swallows what differs between machines in the last bits of a sum.
    return Head(names, layer.round(DECIMALS), bias.round(DECIMALS))


def softmax(scores: Matrix) -> Matrix:
    """Rows of positive numbers that sum to one."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
