"""The same forty series judged by ``bench.drift_peers NAME``: gatemark, evidently or nannyml."""

from __future__ import annotations

import sys

import numpy as np

SERIES, WINDOWS, BASELINE = 40, 30, 28
SEED = 41_020


def values() -> np.ndarray:
    """Thirty windows of forty healthy metrics."""
    return np.random.default_rng(SEED).normal(0, 1, (SERIES, WINDOWS))


def judge_gatemark() -> int:
    """The tick, as a simulation calls it."""
    from gatemark.flow.plugins import detectors  # noqa: PLC0415
    from gatemark.watch.policy import DriftPolicy, Watch  # noqa: PLC0415
    from gatemark.watch.simulate import simulate, values_data  # noqa: PLC0415

    found = simulate(
        DriftPolicy(), Watch(metric="*"), detectors().get("sigma"), values_data(values())
    )
    return len(found.episodes)


def judge_evidently() -> int:
    """A drift report of the last windows against the earlier ones, all columns."""
    import pandas as pd  # noqa: PLC0415
    from evidently import Report  # noqa: PLC0415
    from evidently.presets import DataDriftPreset  # noqa: PLC0415

    frame = pd.DataFrame(values().T, columns=[f"m{at}" for at in range(SERIES)])
    report = Report([DataDriftPreset()])
    report.run(frame.iloc[BASELINE:], frame.iloc[:BASELINE])
    return SERIES


def judge_nannyml() -> int:
    """Univariate drift, one chunk per window."""
    import nannyml  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415

    names = [f"m{at}" for at in range(SERIES)]
    frame = pd.DataFrame(values().T, columns=names)
    judge = nannyml.UnivariateDriftCalculator(
        column_names=names, continuous_methods=["wasserstein"], chunk_size=1
    )
    judge.fit(frame.iloc[:BASELINE])
    judge.calculate(frame.iloc[BASELINE:])
    return SERIES


if __name__ == "__main__":
    globals()[f"judge_{sys.argv[1]}"]()
