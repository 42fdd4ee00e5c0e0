"""Guards for the small numpy model: each really changes what it computes when it has to."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Preset = Literal["harmless", "harmful"]


class GuardSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How tightly each guard holds; null leaves a guard out.

    ``clip`` bounds the hidden pre-activations. ``spectral_cap`` bounds the largest singular value
    of the output weights, as a share of the trained one. ``variance`` is how far, as a share, the
    spread of a window's hidden state may stray from the calibrated one before it is scaled back.
    """

    clip: Annotated[float, Meta(gt=0)] | None = None
    spectral_cap: Annotated[float, Meta(gt=0)] | None = None
    variance: Annotated[float, Meta(ge=0)] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The guards of the chain, in order."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is not None)


PRESETS: Final[dict[Preset, GuardSettings]] = {
    "harmless": GuardSettings(clip=1.5, spectral_cap=0.95, variance=0.03),
    "harmful": GuardSettings(clip=0.5, spectral_cap=0.5, variance=0.02),
}


def clipped(values: Floats, limit: float) -> Floats:
    """Values cut to [-limit, limit]."""
    return np.clip(values, -limit, limit)


def capped(weights: Floats, cap: float) -> Floats:
    """Weights scaled down so that no singular value exceeds the cap."""
    largest = float(np.linalg.norm(weights, 2))
    return weights * (cap / largest) if largest > cap else weights


def steadied(hidden: Floats, calibrated: float, tolerance: float) -> Floats:
    """A window's hidden state, its spread brought back to the edge of what is tolerated."""
    spread = float(hidden.std())
    low, high = calibrated * (1 - tolerance), calibrated * (1 + tolerance)
    if spread == 0 or low <= spread <= high:
        return hidden
    return hidden * ((low if spread < low else high) / spread)
