"""The detector plugin interface: judge many series at once, without state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import BadInputError
from gatemark.release.drift.judging.parts import FormName, values_of
from gatemark.statistics.control_chart import (
    Deviations,
    correlated_spread_each,
    deviations_each,
    mean_floor_each,
    moments_each,
    rate_floor_each,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class SeriesSample(NamedTuple):
    """Some series of one form: baseline windows and recent windows, the judged one last.

    ``baseline_items`` and ``recent_items`` are [series, windows]; zero items mark a missing window.
    ``baseline`` and ``recent`` hold the parts, [series, windows, parts]. ``baseline_number`` and
    ``number`` are the numbers of the baseline windows and of the judged one. ``reference`` is the
    score and the item count of each version's sealed result, [series, 2].
    """

    form: FormName
    baseline_items: Floats
    baseline: Floats
    recent_items: Floats
    recent: Floats
    is_rate: bool = False
    min_sd: float | None = None
    baseline_number: NDArray[np.int64] | None = None
    number: NDArray[np.int64] | None = None
    reference: Floats | None = None

    @property
    def items(self) -> Floats:
        """Items of the judged window."""
        return self.recent_items[:, -1]

    @property
    def current(self) -> Floats:
        """Parts of the judged window."""
        return self.recent[:, -1]

    def rows(self, chosen: NDArray[Any]) -> SeriesSample:
        """Return the sample of the chosen series."""
        return self._replace(
            baseline_items=self.baseline_items[chosen],
            baseline=self.baseline[chosen],
            recent_items=self.recent_items[chosen],
            recent=self.recent[chosen],
            baseline_number=_select_numbers(self.baseline_number, chosen),
            number=_select_numbers(self.number, chosen),
            reference=None if self.reference is None else self.reference[chosen],
        )


def _select_numbers(
    numbers: NDArray[np.int64] | None, chosen: NDArray[Any]
) -> NDArray[np.int64] | None:
    return None if numbers is None else numbers[chosen]


class Readings(NamedTuple):
    """The numbers a detector computes for each series; NaN marks one that has no value.

    ``is_degenerate`` marks a difference from a constant baseline, ``is_new`` a class that the
    baseline never had, ``is_material`` a change large enough to matter.
    """

    value: Floats
    mu: Floats
    sd: Floats
    sigma: Floats
    z: Floats
    p_value: Floats
    is_degenerate: Flags
    is_new: Flags
    is_material: Flags
    extras: Mapping[str, Floats]

    def rows(self, chosen: slice | Flags) -> Readings:
        """Return the readings of the chosen series."""
        return Readings(
            value=self.value[chosen],
            mu=self.mu[chosen],
            sd=self.sd[chosen],
            sigma=self.sigma[chosen],
            z=self.z[chosen],
            p_value=self.p_value[chosen],
            is_degenerate=self.is_degenerate[chosen],
            is_new=self.is_new[chosen],
            is_material=self.is_material[chosen],
            extras={name: part[chosen] for name, part in self.extras.items()},
        )


def join_readings(parts: Sequence[Readings]) -> Readings:
    """Concatenate the readings of some blocks of series."""
    if len(parts) == 1:
        return parts[0]
    return Readings(
        value=np.concatenate([part.value for part in parts]),
        mu=np.concatenate([part.mu for part in parts]),
        sd=np.concatenate([part.sd for part in parts]),
        sigma=np.concatenate([part.sigma for part in parts]),
        z=np.concatenate([part.z for part in parts]),
        p_value=np.concatenate([part.p_value for part in parts]),
        is_degenerate=np.concatenate([part.is_degenerate for part in parts]),
        is_new=np.concatenate([part.is_new for part in parts]),
        is_material=np.concatenate([part.is_material for part in parts]),
        extras={
            name: np.concatenate([part.extras[name] for part in parts]) for name in parts[0].extras
        },
    )


def make_readings(
    value: Floats, mu: Floats, found: Deviations, extras: Mapping[str, Floats] | None = None
) -> Readings:
    """Return the readings of a detector that measures in sigmas."""
    return Readings(
        value=value,
        mu=mu,
        sd=found.sd,
        sigma=found.sigma,
        z=found.z,
        p_value=found.p_value,
        is_degenerate=found.is_degenerate,
        is_new=np.zeros(value.shape, dtype=bool),
        is_material=np.ones(value.shape, dtype=bool),
        extras=extras or {},
    )


class KnownReading(msgspec.Struct, frozen=True):
    """A worked example of a detector: windows as (items, parts), and the expected readings.

    ``None`` as an expected number means that it must be NaN.
    """

    title: str
    form: FormName
    baseline: Sequence[tuple[float, Sequence[float]]]
    recent: Sequence[tuple[float, Sequence[float]]]
    expected: dict[str, float | bool | None]
    options: dict[str, object] = {}
    is_rate: bool = False
    tolerance: float = 1e-9
    reference: tuple[float, float] | None = None


def _return_unchanged(form: FormName, items: Floats, parts: Floats) -> tuple[FormName, Floats]:
    _ = items
    return form, parts


class Detector(msgspec.Struct, frozen=True):
    """A detector plugin: a name, its options, the forms it takes, and its function.

    ``recent`` is the number of latest windows it reads; the baseline is before them. ``reduce`` may
    replace the parts of all windows once, before any is judged. ``is_directed`` says whether its
    readings have a direction. ``named_forms`` are forms it takes only from metrics that a watch
    names. ``is_self_starting`` says that it searches for the start of a change: it decides by
    ``z``, and its baseline is never frozen. ``needs_reference`` says that it compares with a sealed
    result and needs no baseline. ``windows_per_look`` is the number of consecutive windows that
    count as one look, since their readings are strongly correlated.
    """

    name: str
    summary: str
    options: type[msgspec.Struct]
    forms: frozenset[FormName]
    judge: Callable[[SeriesSample, Any], Readings]
    known: tuple[KnownReading, ...]
    formula: str
    references: tuple[str, ...]
    recent: Callable[[Any], int] = lambda _: 1
    reduce: Callable[[FormName, Floats, Floats], tuple[FormName, Floats]] = _return_unchanged
    is_directed: bool = True
    named_forms: frozenset[FormName] = frozenset()
    is_self_starting: bool = False
    needs_reference: bool = False
    windows_per_look: float = 1.0

    def build(self, options: Mapping[str, object]) -> msgspec.Struct:
        """Return the options, validated and converted to the detector's type."""
        try:
            return msgspec.convert(dict(options), self.options)
        except msgspec.ValidationError as error:
            raise BadInputError(f"options of detector {self.name}: {error}") from error


def judge_values(
    sample: SeriesSample, *, has_floor: bool, widens_by_correlation: bool = False
) -> Readings:
    """Return the sigma of the judged window of each series.

    ``has_floor`` applies a minimum spread; ``widens_by_correlation`` widens the spread of a
    baseline whose neighbouring windows are correlated.
    """
    value = values_of(sample.form, sample.items, sample.current)
    history = values_of(sample.form, sample.baseline_items, sample.baseline)
    present = sample.baseline_items > 0
    moments = moments_each(history, present)
    if widens_by_correlation:
        wider = correlated_spread_each(history, present, moments)
        moments = moments._replace(sd=moments.sd * wider)
    floor = noise_floor(sample) if has_floor else None
    return make_readings(value, moments.mean, deviations_each(value, moments, floor))


def noise_floor(sample: SeriesSample) -> Floats:
    """Return the minimum spread: sampling noise of a rate or a mean, or as configured."""
    items = sample.items
    floor = np.full(items.shape, np.nan if sample.min_sd is None else sample.min_sd)
    if sample.form == "sum":
        both_items = np.concatenate([sample.baseline_items, items[:, None]], axis=1)
        both = np.concatenate([sample.baseline, sample.current[:, None]], axis=1)
        noise = mean_floor_each(both_items, both[..., 0], both[..., 1], items)
    elif sample.form == "k" or sample.is_rate:
        noise = rate_floor_each(
            sample.baseline[..., 0].sum(axis=1),
            sample.baseline_items.sum(axis=1),
            sample.current[:, 0],
            items,
        )
    else:
        return floor
    return np.asarray(np.fmax(floor, noise))
