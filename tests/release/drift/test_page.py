from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from opentelemetry._logs import SeverityNumber

from gatemark.release.drift.signal import LEVELS, DriftSignal, Episode, Window
from gatemark.release.drift.views.chart import draw_drift_chart
from gatemark.release.drift.views.evaluation_events import collect_attributes, otlp_lines
from gatemark.release.drift.views.page import TONES, render_drift
from gatemark.release.drift.views.text import level_line, signal_table
from gatemark.release.drift.views.views import ActView, DriftView, SeriesView, WindowView

START = datetime(2026, 3, 1, tzinfo=UTC)
EVIL = "<script>alert(1)</script>\x1b[31m"


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def signal(**more: Any) -> DriftSignal:
    fields: dict[str, Any] = {
        "asset": "triage",
        "metric": "golden_accuracy",
        "detector": "sigma",
        "level": "OK",
        "reason": "|z| 0.10 is below 2",
        "sigma": 0.1,
        "z": 0.1,
        "p_value": 0.9,
        "value": 0.9,
        "mu": 0.9,
        "sd": 0.02,
        "n": 200,
        "window": Window(day(3), day(4)),
        "baseline_windows": 14,
    }
    return DriftSignal(**(fields | more))


def window(number: int, value: float | None = 0.9, **more: Any) -> WindowView:
    fields: dict[str, Any] = {
        "start": day(number),
        "end": day(number + 1),
        "n": 0 if value is None else 200,
        "value": value,
        "mu": 0.9,
        "sd": 0.02,
        "z": 0.1,
        "level": "OK",
    }
    return WindowView(**(fields | more))


def series(*windows: WindowView, **more: Any) -> SeriesView:
    return SeriesView(
        metric="golden_accuracy",
        detector="sigma",
        warn=2.0,
        breach=3.0,
        signal=signal(**more),
        windows=windows,
    )


def episode(**more: Any) -> Episode:
    fields: dict[str, Any] = {
        "id": "sha256:" + "ab" * 32,
        "asset": "triage",
        "metric": "golden_accuracy",
        "detector": "sigma",
        "level": "BREACH",
        "opened": Window(day(2), day(3)),
        "latest": Window(day(3), day(4)),
        "breached": Window(day(3), day(4)),
        "signal": signal(level="BREACH"),
        "policy_digest": "sha256:" + "cd" * 32,
        "baseline_ids": ("2026-02-01T00:00:00Z/86400s#1",),
        "baseline_digest": "sha256:" + "ef" * 32,
    }
    return Episode(**(fields | more))


def view(*shown: SeriesView, **more: Any) -> DriftView:
    fields: dict[str, Any] = {
        "asset": "triage",
        "kind": "prompt",
        "stage": "enabled",
        "version": "1.0.0",
        "at": day(5),
        "policy": "watched-metrics",
        "mode": "corrected",
        "policy_digest": "sha256:" + "cd" * 32,
        "series": shown,
        "episodes": (episode(),),
        "acts": (
            ActView(
                at=day(4),
                metric="golden_accuracy",
                level="BREACH",
                act="demote",
                outcome="1.0.0 was demoted",
                events=(7,),
            ),
        ),
    }
    return DriftView(**(fields | more))


def test_every_level_has_a_tone_and_only_good_ones_are_green() -> None:
    assert set(TONES) == set(LEVELS)
    assert {level for level, tone in TONES.items() if tone == "pass"} == {"OK", "INFO"}


@pytest.mark.parametrize("level", LEVELS)
def test_the_banner_is_never_greener_than_the_worst_signal(level: Any) -> None:
    page = render_drift(view(series(window(0)), series(window(0), level=level))).decode()
    tone = page.split('class="banner ')[1].split('"')[0]
    assert tone == TONES[level]


def test_nothing_watched_is_not_green() -> None:
    page = render_drift(view(episodes=(), acts=())).decode()
    assert "NOTHING WATCHED" in page
    assert 'class="banner inconclusive"' in page


def test_hostile_names_stay_text() -> None:
    shown = series(window(0), metric=EVIL, reason=EVIL)
    shown = msgspec.structs.replace(shown, metric=EVIL)
    act = ActView(at=day(4), metric=EVIL, level="WARN", act="tell", outcome=EVIL, events=())
    page = render_drift(view(shown, asset=EVIL, acts=(act,))).decode()
    assert "<script" not in page
    assert "\x1b" not in page
    table = "\n".join(signal_table([signal(asset=EVIL, level="WARN", reason=EVIL)]))
    assert "\x1b" not in table


def test_a_chart_holds_the_bands_the_values_and_the_episode() -> None:
    windows = [window(0), window(1, 0.95), window(2, None), window(3, 0.7, level="BREACH")]
    chart = draw_drift_chart(series(*windows), [episode()])
    assert chart is not None
    assert [dot.style for dot in chart.dots] == ["plain", "plain", "breach"]
    assert chart.value_line.count("M") == 2, "a gap is a gap"
    (span,) = chart.spans
    assert span.style == "breach"
    assert "1 missing" in chart.description
    for path in (chart.wide_band, chart.narrow_band, chart.mean_line, chart.value_line):
        assert "nan" not in path
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><path d="{chart.wide_band}"/></svg>'
    ET.fromstring(svg)


def test_a_chart_shows_the_episodes_of_detectors_that_have_no_chart_of_their_own() -> None:
    shown = series(window(0), window(1), window(2), window(3))
    found = (episode(level="WARN"), episode(detector="sealed"), episode(metric="other"))
    page = render_drift(view(shown, episodes=found)).decode()
    assert re.findall(r'class="span (\w+)" x', page) == ["warn", "breach"]
    of_both = (shown, msgspec.structs.replace(shown, detector="sealed"))
    page = render_drift(view(*of_both, episodes=found)).decode()
    assert re.findall(r'class="span (\w+)" x', page) == ["warn", "breach"], "each in its own chart"


def test_the_key_of_a_chart_names_only_what_is_drawn() -> None:
    bare = series(window(0, mu=None, sd=None, z=None, level=None))
    page = render_drift(view(bare, episodes=())).decode()
    drawn = re.findall(r"</svg>([a-z0-9 .]+)</span>", page)
    assert drawn == []
    page = render_drift(view(series(window(0), window(3, 0.7, level="BREACH")))).decode()
    assert re.findall(r"</svg>([a-z0-9 .]+)</span>", page) == [
        *("baseline mean", "within 2 sigma", "within 3 sigma", "breach", "episode")
    ]


def test_a_far_value_is_drawn_at_the_edge_and_says_so() -> None:
    chart = draw_drift_chart(series(window(0), window(1, 1e9)), [])
    assert chart is not None
    assert [dot.is_cut for dot in chart.dots] == [False, True]
    assert chart.plot_top <= chart.dots[1].y <= chart.plot_bottom


@pytest.mark.parametrize(
    "windows",
    [
        (window(0, 0.9, mu=None, sd=None, z=None, level=None),),
        (window(0, 0.9, sd=0.0), window(1, 0.9, sd=0.0)),
        (window(0, 0.0, mu=0.0, sd=0.0),),
        (window(0, None, mu=None, sd=None, z=None, level=None), window(1, -3.0)),
    ],
)
def test_flat_young_and_gappy_series_can_be_drawn(windows: tuple[WindowView, ...]) -> None:
    assert draw_drift_chart(series(*windows), []) is not None
    assert b"nan" not in render_drift(view(series(*windows))).lower()


def test_a_series_without_a_value_has_no_chart() -> None:
    empty = window(0, None, mu=None, sd=None, z=None, level=None)
    assert draw_drift_chart(series(empty), []) is None
    assert b"No window has a value yet" in render_drift(view(series(empty)))


def test_what_has_no_mean_is_drawn_by_its_score() -> None:
    shown = series(window(0, 5.0, mu=None, sd=None, z=2.5), mu=None)
    chart = draw_drift_chart(shown, [])
    assert chart is not None
    assert "(score z)" in chart.description


def test_the_table_puts_the_worst_first_and_counts_the_rest() -> None:
    signals = [signal(metric="a"), signal(metric="b", level="BREACH"), signal(metric="c")]
    lines = signal_table(signals, limit=2)
    assert lines[1].startswith("BREACH")
    assert lines[-1] == "… and 1 more"
    assert level_line({}) == "no signals"


def test_each_signal_is_one_otlp_log_record() -> None:
    signals = [signal(), signal(level="BREACH", episode="sha256:e"), signal(level="STALE", z=None)]
    (line,) = otlp_lines(signals, day(5), "1.0")
    records = msgspec.json.decode(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert {record["eventName"] for record in records} == {"gen_ai.evaluation.result"}
    assert {record["timeUnixNano"] for record in records} == {f"{day(5).timestamp():.0f}000000000"}
    for source, record in zip(signals, records, strict=True):
        written = {one["key"]: next(iter(one["value"].values())) for one in record["attributes"]}
        assert written.keys() == collect_attributes(source).keys()
        assert written["gen_ai.evaluation.score.label"] == source.level
    numbers = [SeverityNumber(record["severityNumber"]).name for record in records]
    assert numbers == [record["severityText"] for record in records] == ["INFO", "ERROR", "WARN"]


def test_many_signals_come_in_several_lines() -> None:
    lines = list(otlp_lines([signal()] * 1001, day(5), "1.0"))
    assert len(lines) == 3
    assert all(line.endswith(b"\n") for line in lines)
