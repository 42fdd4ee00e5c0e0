"""Signals as OpenTelemetry events ``gen_ai.evaluation.result``.

``otlp_lines`` writes them in the OTLP JSON file format; ``emit`` passes them to an SDK logger, for
a process that already exports telemetry. Names follow the semantic conventions 1.41, where they are
still in development.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from gatemark.release.drift.signal import ALARMS, UNJUDGED, DriftSignal

EVENT_NAME: Final = "gen_ai.evaluation.result"
SCOPE: Final = "gatemark.drift"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"
PER_LINE: Final = 500
_INFO, _WARN, _ERROR = 9, 13, 17


def collect_attributes(signal: DriftSignal) -> dict[str, str | float | int]:
    """Return the attributes of a signal's event; a missing number is an error, not zero."""
    found: dict[str, str | float | int] = {
        "gen_ai.evaluation.name": f"drift.{signal.metric}",
        "gen_ai.evaluation.score.label": signal.level,
        "gen_ai.evaluation.explanation": signal.reason,
        "gatemark.asset": signal.asset,
        "gatemark.detector": signal.detector,
        "gatemark.baseline_windows": signal.baseline_windows,
    }
    numbers = {
        "gen_ai.evaluation.score.value": signal.z,
        "gatemark.sigma": signal.sigma,
        "gatemark.value": signal.value,
    }
    found |= {name: number for name, number in numbers.items() if number is not None}
    if signal.level in UNJUDGED:
        found["error.type"] = signal.level
    if signal.window is not None:
        found["gatemark.window"] = signal.window.id
    if signal.episode is not None:
        found["gatemark.episode"] = signal.episode
    return found


def _choose_severity(signal: DriftSignal) -> tuple[int, str]:
    """Return the OpenTelemetry severity number and text of a signal."""
    if signal.level == "BREACH":
        return _ERROR, "ERROR"
    return (_WARN, "WARN") if signal.level in ALARMS | UNJUDGED else (_INFO, "INFO")


def otlp_lines(signals: Sequence[DriftSignal], at: datetime, version: str) -> Iterator[bytes]:
    """Yield the signals as lines of OTLP JSON, some hundreds in each."""
    for start in range(0, len(signals), PER_LINE):
        records = [_make_record(signal, at) for signal in signals[start : start + PER_LINE]]
        scope = {"name": SCOPE, "version": version}
        line = {
            "resourceLogs": [
                {
                    "resource": {"attributes": [_attribute("service.name", "gatemark")]},
                    "scopeLogs": [{"scope": scope, "logRecords": records, "schemaUrl": SCHEMA_URL}],
                }
            ]
        }
        yield msgspec.json.encode(line) + b"\n"


def _make_record(signal: DriftSignal, at: datetime) -> dict[str, object]:
    number, text = _choose_severity(signal)
    return {
        "timeUnixNano": str(_count_nanoseconds(at)),
        "observedTimeUnixNano": str(_count_nanoseconds(at)),
        "severityNumber": number,
        "severityText": text,
        "eventName": EVENT_NAME,
        "body": {"stringValue": signal.reason},
        "attributes": [
            _attribute(name, value) for name, value in collect_attributes(signal).items()
        ],
    }


def _attribute(name: str, value: str | float) -> dict[str, object]:
    if isinstance(value, str):
        return {"key": name, "value": {"stringValue": value}}
    if isinstance(value, int):
        return {"key": name, "value": {"intValue": str(value)}}
    return {"key": name, "value": {"doubleValue": value}}


def _count_nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
