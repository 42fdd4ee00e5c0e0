"""How good the built-in drift policy is: false alarms, detection, and series that people marked.

Everything simulated is seeded and judged by the real tick. Detectors of ``river``, Evidently and
NannyML run where the environment of the bench has them. The marked series are those of the Turing
Change Point Dataset, read from the folder that ``GATEMARK_REALITY`` names; the section says so
where there is none.
"""

from __future__ import annotations

import importlib.util
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.measure import Line

SEED = 20_261_117
SERIES = int(os.environ.get("GATEMARK_BENCH_SERIES", "1000"))
REALITY = Path(os.environ.get("GATEMARK_REALITY", "reality"))
MARGIN = 5
REFERENCE, WEEK = 50, 7
Floats = NDArray[np.float64]
Alarms = Callable[[Floats], list[int]]
"""A detector on one series: the places where it says that something changed."""


def lines() -> Iterator[Line]:
    """Figures of the built-in policy, then F1 on marked series beside other detectors."""
    yield from _policy_lines()
    yield from _peer_lines()
    yield from _marked_lines()


def _policy_lines() -> Iterator[Line]:
    from gatemark.release.drift.explain import select_scalar_watches  # noqa: PLC0415
    from gatemark.release.drift.judging.policy import DriftPolicy  # noqa: PLC0415
    from gatemark.release.drift.judging.simulate import (  # noqa: PLC0415
        KINDS,
        SHIFTS,
        estimate_detection,
        estimate_false_alarms,
    )

    policy = DriftPolicy()
    watched = select_scalar_watches(policy)
    yield Line("series per row", SERIES, "series")
    for kind in KINDS:
        found = estimate_false_alarms(
            policy, watched, seed=SEED, assets=SERIES, metrics=1, kind=kind
        )
        most = 0.15 if kind == "independent" else None
        name = f"false warnings a year, one metric, {kind}"
        yield Line(name, found.warnings_per_year, "a year", at_most=most)
        # An asset is said to have five metrics.
        most = 1.0 if kind == "correlation 0.5" else None
        name = f"false demotions a year, five metrics, {kind}"
        yield Line(name, 5 * found.demotions_per_year, "a year", at_most=most)
    least = {(2.0, 7): 85.0, (5.0, 2): 90.0, (None, 30): 95.0}
    changes = (*SHIFTS, None)
    for one in estimate_detection(policy, watched, changes=changes, seed=SEED, series=SERIES):
        name = "ramp of 0.1 sd a day" if one.change is None else f"shift of {one.change:g} sd"
        bar = least.get((one.change, one.days))
        yield Line(f"{name} found within {one.days} days", 100 * one.found, "%", at_least=bar)


def _peers() -> Mapping[str, Alarms]:
    """Detectors of others that look at every value and start afresh after an alarm."""
    peers: dict[str, Alarms] = {"plain CUSUM, k .5 h 8": _cusum}
    if importlib.util.find_spec("river") is not None:
        name = f"river {version('river')}"
        peers |= {f"{name} {one}": _river(one) for one in ("ADWIN", "PageHinkley")}
        # By default it looks at every 32nd value only.
        peers[f"{name} ADWIN, clock 1"] = _river("ADWIN", clock=1)
    return peers


def _batch_peers() -> Mapping[str, Alarms]:
    """Detectors of others that compare each week with the first 50 days.

    They have no notion of a change after which they would start afresh, so that marked series,
    which change several times, do not fit them.
    """
    peers: dict[str, Alarms] = {}
    if importlib.util.find_spec("evidently") is not None:
        peers[f"Evidently {version('evidently')}, Kolmogorov-Smirnov"] = _evidently
    if importlib.util.find_spec("nannyml") is not None:
        peers[f"NannyML {version('nannyml')}, Jensen-Shannon"] = _nannyml
    return peers


def _evidently(values: Floats) -> list[int]:
    """The test that Evidently chooses for a number with few values, at its default of 0.05."""
    import pandas as pd  # noqa: PLC0415
    from evidently.legacy.calculations.stattests import ks_stat_test  # noqa: PLC0415
    from evidently.legacy.core import ColumnType  # noqa: PLC0415

    before = pd.Series(values[:REFERENCE])
    found = []
    for start in range(REFERENCE, values.size - WEEK + 1, WEEK):
        week = pd.Series(values[start : start + WEEK])
        if ks_stat_test(before, week, ColumnType.Numerical, 0.05).drifted:
            found.append(start + WEEK - 1)
    return found


def _nannyml(values: Floats) -> list[int]:
    """NannyML's default for numbers, one chunk a week, with its default thresholds."""
    import pandas as pd  # noqa: PLC0415
    from nannyml import UnivariateDriftCalculator  # noqa: PLC0415

    frame = pd.DataFrame({"m": values})
    whole = REFERENCE + (values.size - REFERENCE) // WEEK * WEEK
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drift = UnivariateDriftCalculator(column_names=["m"], chunk_size=WEEK)
        drift.fit(frame.iloc[:REFERENCE])
        told = drift.calculate(frame.iloc[REFERENCE:whole]).to_df()
    alarms = told["m", "jensen_shannon", "alert"].tolist()
    return [REFERENCE + WEEK * (at + 1) - 1 for at, is_alarm in enumerate(alarms) if is_alarm]


def _cusum(values: Floats, slack: float = 0.5, line: float = 8.0) -> list[int]:
    start = values[: max(min(50, values.size // 2), 2)]
    scaled = (values - start.mean()) / (start.std(ddof=1) or 1.0)
    found, up, down = [], 0.0, 0.0
    for at, value in enumerate(scaled.tolist()):
        up, down = max(0.0, up + value - slack), max(0.0, down - value - slack)
        if max(up, down) > line:
            found.append(at)
            up = down = 0.0
    return found


def _river(name: str, **options: int) -> Alarms:
    def alarms(values: Floats) -> list[int]:
        from river import drift  # noqa: PLC0415

        detector = getattr(drift, name)(**options)
        found = []
        for at, value in enumerate(values.tolist()):
            detector.update(value)
            if detector.drift_detected:
                found.append(at)
        return found

    return alarms


def _ours(values: Floats) -> list[int]:
    """Where the built-in policy says that changes began; after each, it starts afresh."""
    from gatemark.release.drift.explain import select_scalar_watches  # noqa: PLC0415
    from gatemark.release.drift.judging.policy import DriftPolicy  # noqa: PLC0415
    from gatemark.release.drift.judging.simulate import START, make_values, simulate  # noqa: PLC0415

    policy = DriftPolicy()
    watched = select_scalar_watches(policy)
    found: list[int] = []
    since = 0
    while True:
        # At most 400 windows are judged in one go.
        rest = values[since : since + 400]
        alarms = [
            (episode.opened.start, int(episode.signal.extras.get("shift_windows", 1)))
            for episode in simulate(policy, watched, make_values(rest[None])).episodes
            if episode.level in ("WARN", "BREACH")
        ]
        if not alarms:
            if since + 400 >= values.size:
                return found
            since += 300
            continue
        opened, windows = min(alarms)
        place = since + (opened - START).days - windows + 1
        found.append(place)
        since = max(place, since + 1)


def _peer_lines() -> Iterator[Line]:
    rng = np.random.default_rng(SEED)
    series = max(SERIES // 10, 20)
    healthy = rng.standard_normal((series, 365))
    shifted = rng.standard_normal((series, 130))
    shifted[:, 100:] += 2
    yield Line("series per detector of others", series, "series")
    for name, alarms in {**_peers(), **_batch_peers()}.items():
        alarmed = sum(len(alarms(row)) for row in healthy) / series
        soon = np.mean([any(100 <= at < 107 for at in alarms(row)) for row in shifted])
        yield Line(f"{name}: false alarms a year, independent", alarmed, "a year")
        yield Line(f"{name}: shift of 2 sd found within 7 days", 100 * float(soon), "%")


def _marked_lines() -> Iterator[Line]:
    folder = REALITY / "tcpd"
    if not folder.is_dir():
        yield Line("marked series (TCPD): no folder, not measured", 0, "series")
        return
    marks = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    series = dict(_series(folder, marks))
    yield Line("marked series (TCPD)", len(series), "series")
    detectors: dict[str, Alarms] = {"never alarm": lambda _: [], "gatemark": _ours, **_peers()}
    for name, alarms in detectors.items():
        scores = [_f1(marks[key], alarms(values)) for key, values in series.items()]
        yield Line(f"{name}: mean F1 on marked series", float(np.mean(scores)), "")


def _series(folder: Path, marks: Mapping[str, object]) -> Iterator[tuple[str, Floats]]:
    for path in sorted(folder.glob("*.json")):
        if path.stem not in marks:
            continue
        told = json.loads(path.read_text(encoding="utf-8"))
        if len(told["series"]) != 1:
            continue
        raw = [np.nan if value is None else float(value) for value in told["series"][0]["raw"]]
        values = np.asarray(raw)
        known = np.flatnonzero(np.isfinite(values))
        yield path.stem, np.interp(np.arange(values.size), known, values[known])


def _f1(marks: Mapping[str, Sequence[int]], found: Sequence[int]) -> float:
    """F1 as the dataset's paper has it: margin 5, recall averaged over annotators, 0 is given."""
    claimed = {0, *found}
    truths = [{0, *places} for places in marks.values()]
    everyone = set().union(*truths)
    precision = _matched(everyone, claimed) / len(claimed)
    recall = float(np.mean([_matched(truth, claimed) / len(truth) for truth in truths]))
    return 2 * precision * recall / (precision + recall)


def _matched(truth: set[int], claimed: set[int]) -> int:
    """How many true places have a claim within the margin that no earlier one took."""
    left, matched = set(claimed), 0
    for place in sorted(truth):
        near = [(abs(place - claim), claim) for claim in left if abs(place - claim) <= MARGIN]
        if near:
            left.remove(min(near)[1])
            matched += 1
    return matched
