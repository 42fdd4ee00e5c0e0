"""The same windows judged by ``bench.drift_peers NAME``: gatemark, evidently or nannyml.

Ten metrics have thirty windows of two hundred items each; the first fourteen are the baseline
and the other sixteen are judged, one by one. Everybody starts from the items. Loading libraries is
not counted: the version and the seconds of processor time of the best of three go to standard out,
or of one where that takes long.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

SERIES, WINDOWS, BASELINE, ITEMS = 10, 30, 14, 200
JUDGED = WINDOWS - BASELINE
SEED = 41_020
LONG_S = 5.0
NAMES = [f"m{at}" for at in range(SERIES)]


def items() -> np.ndarray:
    """The items of ten healthy metrics: windows, items, metrics."""
    return np.random.default_rng(SEED).normal(0, 1, (WINDOWS, ITEMS, SERIES))


def gatemark() -> Callable[[], object]:
    """Items become sums, and the tick judges them with its memory and its correction."""
    from gatemark.release.drift.detectors.registry import detectors  # noqa: PLC0415
    from gatemark.release.drift.judging.policy import DriftPolicy, Watch  # noqa: PLC0415
    from gatemark.release.drift.judging.simulate import Data, simulate  # noqa: PLC0415

    raw, detector = items(), detectors().get("sigma")

    def judge() -> object:
        sums = np.stack([raw.sum(axis=1).T, (raw**2).sum(axis=1).T], axis=2)
        data = Data("sum", np.full((SERIES, WINDOWS), float(ITEMS)), sums)
        return simulate(DriftPolicy(), [(Watch(metric="*"), detector)], data)

    return judge


def evidently() -> Callable[[], object]:
    """One drift report per judged window against the baseline, all columns."""
    import pandas as pd  # noqa: PLC0415
    from evidently import DataDefinition, Dataset, Report  # noqa: PLC0415
    from evidently.presets import DataDriftPreset  # noqa: PLC0415

    frames = [pd.DataFrame(window, columns=NAMES) for window in items()]

    def judge() -> object:
        columns = DataDefinition(numerical_columns=NAMES)
        before = Dataset.from_pandas(pd.concat(frames[:BASELINE]), data_definition=columns)
        return [
            Report([DataDriftPreset()]).run(
                Dataset.from_pandas(frame, data_definition=columns), before
            )
            for frame in frames[BASELINE:]
        ]

    return judge


def nannyml() -> Callable[[], object]:
    """Univariate drift, one chunk per window, fitted on the baseline."""
    import pandas as pd  # noqa: PLC0415
    from nannyml import UnivariateDriftCalculator  # noqa: PLC0415

    frame = pd.DataFrame(items().reshape(-1, SERIES), columns=NAMES)
    cut = BASELINE * ITEMS

    def judge() -> object:
        calculator = UnivariateDriftCalculator(
            column_names=NAMES, continuous_methods=["wasserstein"], chunk_size=ITEMS
        )
        calculator.fit(frame.iloc[:cut])
        return calculator.calculate(frame.iloc[cut:])

    return judge


def main(name: str) -> None:
    """Time one of them."""
    judge = {"gatemark": gatemark, "evidently": evidently, "nannyml": nannyml}[name]()
    taken = []
    for _ in range(3):
        started = time.process_time()
        judge()
        taken.append(time.process_time() - started)
        if taken[-1] > LONG_S:
            break
    told = "" if name == "gatemark" else version(name)
    print(json.dumps({"version": told, "seconds": min(taken)}))


if __name__ == "__main__":
    main(sys.argv[1])
