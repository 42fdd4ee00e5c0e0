from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from gatemark.core.errors import BadInputError
from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.judging.detector import Detector, Readings, SeriesSample
from gatemark.testing.detectors import check_detector, make_known_sample


@pytest.mark.parametrize("name", detectors().names())
def test_every_detector_keeps_its_promises(name: str) -> None:
    check_detector(detectors().get(name))


def test_the_detectors_are_those_of_the_table_and_the_average() -> None:
    assert set(detectors().names()) == {
        *("sigma", "shift", "sealed", "ewma", "kl", "chi_square", "ece_excess")
    }
    assert not detectors().broken


def test_no_detector_leans_on_another() -> None:
    import gatemark.release.drift.detectors as package

    found = sorted(Path(package.__file__).parent.glob("*.py"))
    for path in (path for path in found if path.name != "registry.py"):
        assert "gatemark.release.drift.detectors" not in path.read_text(encoding="utf-8"), path.name


def spoiled(change: Callable[[Readings], Readings]) -> Detector:
    sigma = detectors().get("sigma")
    return msgspec.structs.replace(sigma, judge=lambda s, o: change(sigma.judge(s, o)))


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda r: r._replace(sigma=r.sigma * 2), "must be"),
        (lambda r: r._replace(z=np.where(np.isnan(r.z), 0.0, r.z)), "must be missing|without"),
        (lambda r: r._replace(z=np.where(np.isnan(r.z), np.inf, r.z)), "infinite|must not"),
        (lambda r: r._replace(extras={"spread": r.z - r.z.mean()}), "a series alone"),
    ],
)
def test_the_common_check_finds_a_detector_that_does_not(
    change: Callable[[Any], Any], finding: str
) -> None:
    with pytest.raises(AssertionError, match=finding):
        check_detector(spoiled(change))


def test_a_detector_with_memory_is_found() -> None:
    sigma = detectors().get("sigma")
    calls: list[int] = []

    def judge(sample: SeriesSample, options: Any) -> Readings:
        calls.append(1)
        return sigma.judge(sample, options)._replace(value=np.full(len(sample.items), len(calls)))

    with pytest.raises(AssertionError, match=r"value|twice"):
        check_detector(msgspec.structs.replace(sigma, judge=judge))


def test_options_nobody_knows_are_refused_with_their_name() -> None:
    with pytest.raises(BadInputError, match=r"options of detector ewma: .*smoothing"):
        detectors().get("ewma").build({"smoothing": 0})
    with pytest.raises(BadInputError, match="unknown field `windows`"):
        detectors().get("sigma").build({"windows": 3})


def test_volume_alone_does_not_look_like_calibration_drift() -> None:
    detector = detectors().get("ece_excess")
    rng = np.random.default_rng(13)
    bins, promised = 15, (np.arange(15) + 0.5) / 15

    def windows(n: int, count: int) -> list[tuple[float, list[float]]]:
        found = []
        for _ in range(count):
            items = rng.multinomial(n, [1 / bins] * bins)
            correct = rng.binomial(items, promised)
            found.append((float(n), [*items, *(items * promised), *correct]))
        return found

    known = msgspec.structs.replace(
        detector.known[0], baseline=windows(5000, 14), recent=windows(200, 1)
    )
    found = detector.judge(make_known_sample(detector, known), detector.build({}))
    assert found.extras["ece"][0] > 0.04
    assert abs(found.sigma[0]) < 3


def test_a_quiet_day_does_not_look_like_a_moved_histogram_and_a_moved_one_does() -> None:
    detector = detectors().get("kl")
    rng = np.random.default_rng(14)
    shape, moved = np.full(10, 0.1), np.linspace(0.02, 0.18, 10)
    baseline = [(5000.0, rng.multinomial(5000, shape).tolist()) for _ in range(14)]
    for recent, low, high in ((shape, -3, 3), (moved, 5, 1e9)):
        known = msgspec.structs.replace(
            detector.known[0],
            baseline=baseline,
            recent=[(200.0, rng.multinomial(200, recent).tolist())],
        )
        found = detector.judge(make_known_sample(detector, known), detector.build({}))
        assert low < found.sigma[0] < high


def test_chi_square_needs_an_effect_and_names_a_new_class() -> None:
    detector = detectors().get("chi_square")
    base = [(100_000.0, [50_000.0, 50_000.0, 0.0])] * 14
    volume = msgspec.structs.replace(
        detector.known[0], baseline=base, recent=[(100_000.0, [50_900.0, 49_100.0, 0.0])]
    )
    found = detector.judge(make_known_sample(detector, volume), detector.build({}))
    assert found.p_value[0] < 1e-6
    assert not found.is_material[0]
    quiet = msgspec.structs.replace(
        volume,
        baseline=[(2000.0, [1900.0, 100.0, 0.0])] * 14,
        recent=[(50.0, [25.0, 25.0, 0.0])],
    )
    found = detector.judge(make_known_sample(detector, quiet), detector.build({}))
    assert found.extras["cramers_v"][0] < 0.1
    assert found.is_material[0], "a tenfold rise of one class matters on a quiet day too"
    fresh = msgspec.structs.replace(volume, recent=[(100.0, [50.0, 49.0, 1.0])])
    assert detector.judge(make_known_sample(detector, fresh), detector.build({})).is_new[0]
