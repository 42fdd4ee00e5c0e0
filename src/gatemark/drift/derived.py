"""Points from what is recorded anyway: counts per asset, metric and window, ready to push."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gatemark.evidence.observations import ConfidenceValue, Hit, Observation

CONFIDENCE_BINS: Final = 10
CALIBRATION_BINS: Final = 15
_EDGE: Final = 1e-9


class WindowTally:
    """Sums of one asset, metric and window, in the form that its metric has."""

    def __init__(self) -> None:
        self.hits: dict[tuple[str, str, int], list[int]] = {}
        self.bins: dict[tuple[str, str, int], list[int]] = {}
        self.calibration: dict[tuple[str, str, int], list[list[float]]] = {}
        self.classes: dict[tuple[str, str, int], dict[str, int]] = {}
        self.values: dict[tuple[str, str, int], tuple[float, int]] = {}

    def value(self, asset: str, metric: str, window: int, number: float, n: int) -> None:
        """A number over n items; several in a window are averaged by their items."""
        before, items = self.values.get((asset, metric, window), (0.0, 0))
        mean = (before * items + number * n) / (items + n)
        self.values[asset, metric, window] = (mean, items + n)

    def count(self, observed: Observation, asset: str | None, window_s: int) -> None:
        """One observation, of the asset that is named or else of what the record is about."""
        name, metric, value = asset or observed.subject, observed.metric, observed.value
        window = window_of(observed.at, window_s)
        if isinstance(value, Hit):
            self.rate(name, metric, window, is_hit=value.is_hit)
        elif not isinstance(value, ConfidenceValue):
            self.category(name, metric, window, value.name)
        elif value.is_correct is None:
            self.confidence(name, metric, window, value.score)
        else:
            self.promise(name, metric, window, value.score, is_correct=value.is_correct)

    def rate(self, asset: str, metric: str, window: int, *, is_hit: bool) -> None:
        """One item of a rate."""
        counts = self.hits.setdefault((asset, metric, window), [0, 0])
        counts[0] += is_hit
        counts[1] += 1

    def confidence(self, asset: str, metric: str, window: int, score: float) -> None:
        """One stated confidence."""
        counts = self.bins.setdefault((asset, metric, window), [0] * CONFIDENCE_BINS)
        counts[bin_of(score, CONFIDENCE_BINS)] += 1

    def promise(
        self, asset: str, metric: str, window: int, score: float, *, is_correct: bool
    ) -> None:
        """One stated confidence and whether it came true."""
        key = (asset, metric, window)
        bins = self.calibration.setdefault(key, [[0.0] * CALIBRATION_BINS for _ in range(3)])
        place = bin_of(score, CALIBRATION_BINS)
        bins[0][place] += 1
        bins[1][place] += score
        bins[2][place] += is_correct

    def category(self, asset: str, metric: str, window: int, name: str) -> None:
        """One occurrence of a class."""
        counts = self.classes.setdefault((asset, metric, window), {})
        counts[name] = counts.get(name, 0) + 1

    def points(self, window_s: int, source: str) -> Iterator[dict[str, Any]]:
        """Everything as points, in order."""
        for key, (number, items) in sorted(self.values.items()):
            yield {**_where(key, window_s, source), "value": number, "n": items}
        for key, (hits, n) in sorted(self.hits.items()):
            yield {**_where(key, window_s, source), "k": hits, "n": n}
        for key, counts in sorted(self.bins.items()):
            yield {**_where(key, window_s, source), "histogram": counts}
        for key, (totals, promised, correct) in sorted(self.calibration.items()):
            bins = {
                "items": [int(n) for n in totals],
                # A sum of rounded parts may exceed its count by a hair.
                "confidence_sum": [min(p, n) for p, n in zip(promised, totals, strict=True)],
                "correct": [int(n) for n in correct],
            }
            yield {**_where(key, window_s, source), "calibration": bins}
        for key, classes in sorted(self.classes.items()):
            yield {**_where(key, window_s, source), "categories": classes}


def bin_of(score: float, bins: int) -> int:
    """The equal-width, right-closed bin of a confidence; zero goes to the first."""
    return min(max(int(-(-(score * bins - _EDGE) // 1)) - 1, 0), bins - 1)


def window_of(moment: datetime, window_s: int) -> int:
    """The window, counted from 1970 in UTC, that a moment is in."""
    return int(moment.timestamp()) // window_s


def _where(key: tuple[str, str, int], window_s: int, source: str) -> dict[str, Any]:
    asset, metric, window = key
    start = datetime.fromtimestamp(window * window_s, UTC)
    return {
        "asset": asset,
        "metric": metric,
        "start": start,
        "end": start + timedelta(seconds=window_s),
        "source": source,
    }
