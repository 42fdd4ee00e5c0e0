"""Signals as Prometheus metrics in the text exposition format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from gatemark.core.text import visible
from gatemark.release.drift.signal import DriftSignal, Episode, rank_level

LABELS = ("asset", "metric", "detector")


def metrics_text(
    signals: Sequence[DriftSignal],
    episodes: Sequence[Episode],
    overdue: Sequence[str],
    probed_at: datetime | None,
) -> bytes:
    """Return all gauges; a number without a value is left out, never written as zero."""
    registry = CollectorRegistry()
    numbers = {
        name: Gauge(f"gatemark_drift_{name}", help_text, LABELS, registry=registry)
        for name, help_text in (
            ("sigma", "Distance from the baseline in its standard deviations."),
            ("z", "Distance from the baseline as a normal score."),
            ("value", "Value of the latest judged window."),
            ("baseline_windows", "Windows in the baseline."),
            ("severity", "Level of the metric: 0 is OK, 7 is BREACH."),
        )
    }
    state = Gauge(
        "gatemark_drift_state",
        "1 for the level that the metric has.",
        (*LABELS, "level"),
        registry=registry,
    )
    for signal in signals:
        labels = [visible(one) for one in (signal.asset, signal.metric, signal.detector)]
        for name, number in (
            ("sigma", signal.sigma),
            ("z", signal.z),
            ("value", signal.value),
            ("baseline_windows", signal.baseline_windows),
            ("severity", rank_level(signal.level)),
        ):
            if number is not None:
                numbers[name].labels(*labels).set(number)
        state.labels(*labels, signal.level).set(1)
    _add_workspace(registry, episodes, overdue, probed_at)
    return generate_latest(registry)


def _add_workspace(
    registry: CollectorRegistry,
    episodes: Sequence[Episode],
    overdue: Sequence[str],
    probed_at: datetime | None,
) -> None:
    opened = Gauge(
        "gatemark_drift_open_episodes",
        "Episodes that go on.",
        ("asset", "level"),
        registry=registry,
    )
    for (asset, level), count in Counter((e.asset, e.level) for e in episodes).items():
        opened.labels(visible(asset), level).set(count)
    late = Gauge(
        "gatemark_schedule_overdue",
        "1 for a schedule that is overdue.",
        ("schedule",),
        registry=registry,
    )
    for name in overdue:
        late.labels(visible(name)).set(1)
    if probed_at is not None:
        Gauge(
            "gatemark_drift_last_probe_timestamp_seconds",
            "When drift was last probed.",
            registry=registry,
        ).set(probed_at.timestamp())
