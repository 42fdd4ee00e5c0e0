"""The check that every detector passes, built in or from a plugin."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from gatemark.release.drift.judging.detector import Detector, KnownReading, Readings, SeriesSample
from gatemark.release.drift.judging.parts import FormName

_SEED = 12
_SERIES = 9
_WINDOWS = 14
_BINS = 5


def check_detector(detector: Detector) -> None:
    """Raise AssertionError unless ``detector`` follows the contract of detectors.

    It must give its known answers. A series must give the same numbers alone and among others,
    twice, and with its baseline in any order. A baseline of fewer than two windows (unless the
    detector compares with a sealed result) and a window without items must give no number. No
    number may be infinite. The formula and its source must be stated.
    """
    if not detector.known:
        _fail(detector, "has no known answers")
    if not detector.formula.strip() or not detector.references:
        _fail(detector, "must state its formula and where it comes from")
    for known in detector.known:
        _check_known(detector, known)
    rng = np.random.default_rng(_SEED)
    for form in sorted(detector.forms):
        for options in ({}, *(known.options for known in detector.known if known.form == form)):
            built = detector.build(options)
            sample = _draw_sample(detector, form, int(detector.recent(built)), rng)
            _check_laws(detector, sample, built, rng)
            _check_gaps(detector, sample, built)


def make_known_sample(detector: Detector, known: KnownReading) -> SeriesSample:
    """Return the sample of a worked example, in the form that the detector reads."""
    windows = (*known.baseline, *known.recent)
    items = np.asarray([[float(n) for n, _ in windows]])
    form, parts = detector.reduce(
        known.form, items, np.asarray([[list(part) for _, part in windows]], dtype=np.float64)
    )
    cut = len(known.baseline)
    return SeriesSample(
        form=form,
        baseline_items=items[:, :cut],
        baseline=parts[:, :cut],
        recent_items=items[:, cut:],
        recent=parts[:, cut:],
        is_rate=known.is_rate,
        reference=None if known.reference is None else np.asarray([known.reference]),
    )


def _check_known(detector: Detector, known: KnownReading) -> None:
    found = detector.judge(make_known_sample(detector, known), detector.build(known.options))
    for name, expected in known.expected.items():
        cell = getattr(found, name)[0]
        place = f"{known.title}: {name}"
        if expected is None:
            if np.isfinite(cell):
                _fail(detector, f"{place} must be missing, got {cell}")
        elif isinstance(expected, bool):
            if bool(cell) is not expected:
                _fail(detector, f"{place} must be {expected}, got {bool(cell)}")
        elif not abs(cell - expected) <= known.tolerance * max(1.0, abs(expected)):
            _fail(detector, f"{place} must be {expected}, got {cell}")


def _draw_sample(
    detector: Detector, form: FormName, recent: int, rng: np.random.Generator
) -> SeriesSample:
    shape = (_SERIES, _WINDOWS + recent)
    items = rng.integers(150, 400, shape).astype(np.float64)
    if form in ("histogram", "categories"):
        raw = rng.multinomial(items.astype(np.int64), [0.1, 0.3, 0.2, 0.3, 0.1])
        parts = raw.astype(np.float64)
    elif form == "calibration":
        counts = rng.multinomial(items.astype(np.int64), [1 / _BINS] * _BINS)
        promised = counts * (np.arange(_BINS) + 0.5) / _BINS
        correct = rng.binomial(counts, (np.arange(_BINS) + 0.5) / _BINS)
        parts = np.concatenate([counts, promised, correct], axis=-1).astype(np.float64)
    elif form == "sum":
        means = rng.normal(3, 0.2, shape)
        parts = np.stack([items * means, items * (means**2 + 1)], axis=-1)
    else:
        hits = rng.binomial(items.astype(np.int64), 0.8)
        parts = hits[..., None].astype(np.float64)
    form, parts = detector.reduce(form, items, parts)
    return SeriesSample(
        form=form,
        baseline_items=items[:, :_WINDOWS],
        baseline=parts[:, :_WINDOWS],
        recent_items=items[:, _WINDOWS:],
        recent=parts[:, _WINDOWS:],
        reference=np.full((_SERIES, 2), (0.8, 300.0)) if detector.needs_reference else None,
    )


def _check_laws(
    detector: Detector, sample: SeriesSample, options: object, rng: np.random.Generator
) -> None:
    whole = detector.judge(sample, options)
    _check_same(detector, "judged twice", whole, detector.judge(sample, options))
    for row in range(_SERIES):
        alone = detector.judge(sample.rows(np.asarray([row])), options)
        _check_same(detector, "a series alone", whole.rows(slice(row, row + 1)), alone)
    if not detector.is_self_starting:
        order = rng.permutation(_WINDOWS)
        shuffled = sample._replace(
            baseline_items=sample.baseline_items[:, order], baseline=sample.baseline[:, order]
        )
        again = detector.judge(shuffled, options)
        _check_same(detector, "a baseline in another order", whole, again)
    if not np.isfinite(whole.z).all():
        _fail(detector, "must give a score for every full series")


def _check_gaps(detector: Detector, sample: SeriesSample, options: object) -> None:
    for kept in (0, 1):
        items = sample.baseline_items.copy()
        items[:, kept:] = 0
        parts = np.where(items[..., None] > 0, sample.baseline, 0.0)
        found = detector.judge(sample._replace(baseline_items=items, baseline=parts), options)
        _check_finite(detector, found)
        if kept == 0 and np.isfinite(found.z).any() and not detector.needs_reference:
            _fail(detector, "must not give a score without a baseline")
    recent_items, recent = sample.recent_items.copy(), sample.recent.copy()
    recent_items[:, -1], recent[:, -1] = 0, 0
    found = detector.judge(sample._replace(recent_items=recent_items, recent=recent), options)
    _check_finite(detector, found)
    if np.isfinite(found.value).any():
        _fail(detector, "must not give a value for a window without items")


def _list_numbers(found: Readings) -> dict[str, Any]:
    fields = found._asdict()
    extras = fields.pop("extras")
    return fields | dict(extras)


def _check_same(detector: Detector, place: str, expected: Readings, found: Readings) -> None:
    _check_finite(detector, found)
    for name, part in _list_numbers(expected).items():
        if not np.allclose(part, _list_numbers(found)[name], rtol=1e-9, atol=1e-9, equal_nan=True):
            _fail(detector, f"{place}: {name} must be {part}, got {_list_numbers(found)[name]}")


def _check_finite(detector: Detector, found: Readings) -> None:
    for name, part in _list_numbers(found).items():
        if np.isinf(part).any():
            _fail(detector, f"{name} must never be infinite")


def _fail(detector: Detector, finding: str) -> NoReturn:
    raise AssertionError(f"detector {detector.name!r}: {finding}")
