"""Events of scheduled workflows: most are noise, a few need somebody."""

from __future__ import annotations

from typing import Any

from advisory_cases.case import Draw, FixtureCase

WORKFLOWS = (
    *("seed-catalogue sync", "greenhouse readings", "newsletter digest", "loan reminders"),
    *("map tiles refresh", "archive rotation", "weather import", "price list export"),
    *("photo thumbnails", "timetable mirror", "inventory count", "feedback summary"),
)
SUCCESS = (
    "finished as before, nothing new to report",
    "run complete, same result as the previous run",
    "all steps done, identical output to last time",
    "completed again with no changes",
    "done, the result repeats the earlier one",
    "finished normally, duplicate of an earlier success",
)
STALE = (
    "warning raised long ago and still listed",
    "old notice about a slow step, since then unchanged",
    "warning from an earlier release, step no longer exists",
    "slow step noticed weeks ago, not seen since",
    "leftover warning about a renamed field",
    "old notice kept open, nothing happened after it",
)
FALSE_ALARM = (
    "URGENT drill message, ignore, this is a test",
    "CRITICAL banner appeared, service recovered by itself a second later",
    "alarm raised during planned maintenance, everything is up",
    "URGENT wording in a test notice, no step failed",
    "CRITICAL drill for the night shift, no action asked",
    "alarm banner shown while the planned restart ran, recovered",
)
FAILURE = (
    "run failed, output missing and no retries left",
    "failed after the last retry, downstream steps are waiting",
    "step failed, data not written, someone must repair it",
    "export failed and the deadline is near, no retries left",
    "failed, the output file is missing and consumers are blocked",
    "run failed twice, repair needed before the next window",
)
MIXED = (
    "some steps finished and some gave no status",
    "partial output, cause not recorded",
    "finished with an unknown status, half of the rows arrived",
    "status lost, output looks complete but was not checked",
    "partial run, one step reports done and another reports nothing",
    "unknown ending, log was cut",
)


def _event(draw: Draw, status: str, message: str, **figures: int) -> dict[str, Any]:
    return {
        "workflow": draw.pick(WORKFLOWS),
        "status": status,
        "message": message,
        "repeat_count": figures.get("repeat_count", draw.number(0, 1)),
        "age_minutes": figures.get("age_minutes", draw.number(1, 40)),
        "retries_left": figures.get("retries_left", draw.number(1, 3)),
    }


def _duplicate_success(draw: Draw) -> dict[str, Any]:
    return _event(draw, "success", draw.phrase(SUCCESS), repeat_count=draw.number(2, 9))


def _stale_warning(draw: Draw) -> dict[str, Any]:
    return _event(draw, "warning", draw.phrase(STALE), age_minutes=draw.number(3000, 40000))


def _urgent_false_alarm(draw: Draw) -> dict[str, Any]:
    return _event(draw, draw.pick(("success", "warning")), draw.phrase(FALSE_ALARM))


def _action_needed_failure(draw: Draw) -> dict[str, Any]:
    return _event(draw, "error", draw.phrase(FAILURE), retries_left=0)


def _mixed_signals(draw: Draw) -> dict[str, Any]:
    return _event(draw, draw.pick(("unknown", "warning")), draw.phrase(MIXED))


CASES = (
    FixtureCase("duplicate_success", "normal", "suppress", "info", 12, _duplicate_success),
    FixtureCase("stale_warning", "normal", "log", "low", 9, _stale_warning),
    FixtureCase("urgent_false_alarm", "false_alarm", "suppress", "info", 10, _urgent_false_alarm),
    FixtureCase(
        "action_needed_failure", "action_needed", "escalate", "high", 12, _action_needed_failure
    ),
    FixtureCase("mixed_signals", "low_confidence", "needs_human", "medium", 5, _mixed_signals),
)
