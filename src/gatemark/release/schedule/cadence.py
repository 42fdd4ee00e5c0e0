"""Schedules, and which of their runs are due at a given time. Pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from gatemark.core.durations import seconds_of
from gatemark.core.errors import InvalidValueError
from gatemark.core.result import AssetKind

ScheduleKind = Literal[
    "required_pack", "regression", "drift", "calibration_refit", "adversarial", "own"
]
TriggerKind = Literal["change", "threat"]
OccasionState = Literal["due", "missed", "expired"]
OnFail = Literal["keep_last", "fallback", "stop"]
ScheduleId = Annotated[
    str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][\w.-]*$")
]
_REQUIRED_PACK: Final = ("run", "{pack}")
_BUILT_IN: Final[dict[ScheduleKind, tuple[str, ...]]] = {
    "required_pack": _REQUIRED_PACK,
    "regression": _REQUIRED_PACK,
    "adversarial": _REQUIRED_PACK,
}
"""The default command of each kind of schedule."""
MOST_MISSES: Final = 10_000
"""Maximum number of fire times to examine at once; more are counted as this many."""


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A command to run at regular times, or on events.

    ``cron`` has five fields and is read in the time zone ``tz``; ``triggers`` name events that also
    start a run. ``run`` has the arguments of a gatemark command; ``{asset}``, ``{pack}`` (the file
    of its required pack), ``{now}`` and ``{due}`` are replaced. Without ``run``, a required pack, a
    regression and an adversarial sweep run the required pack. A schedule with an ``asset_class``,
    or with ``{asset}`` or ``{pack}``, runs once for every such asset, or for ``asset`` alone.

    ``on_fail`` says what a failed gate means for a live version: ``keep_last`` alerts, ``fallback``
    demotes it if an earlier version can take over, ``stop`` demotes it even if nothing is live
    then.
    A run missed for longer than ``catch_up`` is dropped. ``jitter`` spreads schedules over a time
    span; a schedule always has the same offset. ``overdue_after`` missed runs in a row raise a
    warning.
    """

    id: ScheduleId
    kind: ScheduleKind = "own"
    cron: str | None = None
    tz: str = "UTC"
    triggers: tuple[TriggerKind, ...] = ()
    run: tuple[str, ...] = ()
    asset_class: AssetKind | None = None
    asset: str | None = None
    on_fail: OnFail = "keep_last"
    catch_up: str = "1d"
    jitter: str | None = None
    time_limit: str = "1h"
    overdue_after: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2
    enabled: bool = True

    def __post_init__(self) -> None:
        if self.cron is None and not self.triggers:
            raise InvalidValueError(f"schedule {self.id} needs a cron line or a trigger")
        try:
            zone = ZoneInfo(self.tz)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InvalidValueError(f"schedule {self.id}: unknown time zone {self.tz!r}") from error
        if self.cron is not None:
            _check_cron(self.id, self.cron, zone)
        for length in (self.catch_up, self.time_limit, self.jitter):
            if length is not None:
                seconds_of(length)

    @property
    def is_active(self) -> bool:
        """Whether it has a command to run."""
        return self.enabled and bool(self.command)

    @property
    def command(self) -> tuple[str, ...]:
        """The arguments of its command: its own, or those of its kind."""
        return self.run or _BUILT_IN.get(self.kind, ())

    @property
    def needs_pack(self) -> bool:
        """Whether its command names the required pack of an asset."""
        return any("{pack}" in argument for argument in self.command)

    @property
    def is_per_asset(self) -> bool:
        """Whether it runs once for each of its assets."""
        if self.asset is not None or not self.command:
            return False
        names_one = any("{asset}" in argument for argument in self.command)
        return self.asset_class is not None or self.needs_pack or names_one

    @property
    def offset(self) -> timedelta:
        """Return how many seconds after its cron time this schedule fires."""
        if self.jitter is None:
            return timedelta(0)
        number = int.from_bytes(hashlib.sha256(self.id.encode()).digest()[:8])
        return timedelta(seconds=number % seconds_of(self.jitter))

    def fire_times(self, after: datetime) -> Iterator[datetime]:
        """Yield the fire times after a moment, in UTC."""
        if self.cron is None:
            return
        offset = self.offset
        local = (after - offset).astimezone(ZoneInfo(self.tz))
        for moment in CronSim(self.cron, local):
            yield moment.astimezone(UTC) + offset


class SchedulePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All schedules of a workspace."""

    schedules: tuple[Schedule, ...]

    def __post_init__(self) -> None:
        ids = [schedule.id for schedule in self.schedules]
        repeated = sorted({name for name in ids if ids.count(name) > 1})
        if repeated:
            raise InvalidValueError(f"two schedules have the id {repeated[0]!r}")


class Occasion(msgspec.Struct, frozen=True):
    """One or more fire times of a schedule: due, missed because a later one is due, or expired.

    ``count`` is the number of fire times; ``id`` is unique within the schedule.
    """

    schedule: str
    id: str
    due_at: datetime
    state: OccasionState
    count: int = 1
    asset: str | None = None


class Trigger(msgspec.Struct, frozen=True):
    """An event that can start schedules."""

    kind: TriggerKind
    id: str
    at: datetime
    asset: str | None = None


def list_occasions(schedule: Schedule, now: datetime, last_due: datetime | None) -> list[Occasion]:
    """Return the occasions of a schedule at a given time, oldest first; at most one is due.

    ``last_due`` is the latest fire time that was handled. Later fire times that are older than the
    catch-up span are expired; of the others, the latest is due and the rest are missed. The result
    depends on the arguments alone, not on a clock.
    """
    horizon = now - timedelta(seconds=seconds_of(schedule.catch_up))
    found: list[Occasion] = []
    since = horizon
    if last_due is not None:
        since = last_due
        expired = _list_fire_times(schedule, last_due, horizon)
        if expired:
            found.append(_make_occasion(schedule, expired[-1], "expired", len(expired)))
            since = horizon
    waiting = _list_fire_times(schedule, since, now)
    found.extend(_make_occasion(schedule, moment, "missed") for moment in waiting[:-1])
    found.extend(_make_occasion(schedule, moment, "due") for moment in waiting[-1:])
    return found


def list_triggered(
    schedule: Schedule, triggers: Sequence[Trigger], done: frozenset[str], now: datetime
) -> list[Occasion]:
    """Return the triggered runs that have not been made; old ones are expired."""
    horizon = now - timedelta(seconds=seconds_of(schedule.catch_up))
    return [
        Occasion(
            schedule=schedule.id,
            id=name,
            due_at=trigger.at,
            state="due" if trigger.at >= horizon else "expired",
            asset=trigger.asset or schedule.asset,
        )
        for trigger in triggers
        if trigger.kind in schedule.triggers
        and (schedule.asset is None or trigger.asset in (None, schedule.asset))
        and (name := f"{trigger.kind}:{trigger.id}") not in done
    ]


def count_missed(schedule: Schedule, now: datetime, last_done: datetime) -> int:
    """Return how many fire times passed since the last successful run."""
    return len(_list_fire_times(schedule, last_done, now))


def is_overdue(schedule: Schedule, now: datetime, last_done: datetime) -> bool:
    """Whether enough runs were missed to raise a warning."""
    return count_missed(schedule, now, last_done) >= schedule.overdue_after


def find_next_fire(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the next fire time; None if only triggers start it."""
    return next(schedule.fire_times(now), None)


def _list_fire_times(schedule: Schedule, after: datetime, end: datetime) -> list[datetime]:
    moments: list[datetime] = []
    for moment in schedule.fire_times(after):
        if moment > end:
            break
        moments.append(moment)
        if len(moments) > MOST_MISSES:
            del moments[0]
    return moments


def _make_occasion(
    schedule: Schedule, moment: datetime, state: OccasionState, count: int = 1
) -> Occasion:
    name = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    return Occasion(
        schedule=schedule.id,
        id=name,
        due_at=moment,
        state=state,
        count=count,
        asset=schedule.asset,
    )


RETRY_MARK: Final = "#"
MAX_ATTEMPTS: Final = 3


def list_retries(
    schedule: Schedule, runs: Sequence[tuple[str, datetime, str]], now: datetime
) -> list[Occasion]:
    """Return the runs to repeat because their worker disappeared.

    ``runs`` are the latest runs of the schedule: occasion, due time and state. A run is attempted
    at most three times, and not after a later one.
    """
    horizon = now - timedelta(seconds=seconds_of(schedule.catch_up))
    attempts: dict[str, list[tuple[datetime, str]]] = {}
    for name, due_at, state in sorted(runs, key=lambda run: (len(run[0]), run[0])):
        attempts.setdefault(name.partition(RETRY_MARK)[0], []).append((due_at, state))
    newest = max((due_at for _, due_at, _ in runs), default=now)
    return [
        Occasion(
            schedule=schedule.id,
            id=f"{name}{RETRY_MARK}{len(made) + 1}",
            due_at=made[0][0],
            state="due",
            asset=schedule.asset or _parse_asset(name),
        )
        for name, made in attempts.items()
        if made[-1][1] == "abandoned"
        and len(made) < MAX_ATTEMPTS
        and made[0][0] >= max(horizon, newest)
    ]


def _parse_asset(name: str) -> str | None:
    """Return the asset of a change trigger; None for other occasions."""
    kind, _, identity = name.partition(":")
    return identity.partition("@")[0] if kind == "change" else None


def _check_cron(name: str, cron: str, zone: ZoneInfo) -> None:
    try:
        first = next(CronSim(cron, datetime(2026, 1, 1, tzinfo=zone)), None)
    except CronSimError as error:
        raise InvalidValueError(f"schedule {name}: {cron!r} is not a cron line: {error}") from error
    if first is None or len(cron.split()) != 5:
        raise InvalidValueError(
            f"schedule {name}: {cron!r} must have five fields that some date matches"
        )


_REFITTED: Final[tuple[AssetKind, ...]] = ("extractor", "classifier")

DEFAULT_PLAN: Final = SchedulePlan(
    (
        Schedule(id="required-pack", kind="required_pack", triggers=("change",)),
        *(
            Schedule(
                id=f"regression-{kind}",
                kind="regression",
                cron="0 2 * * *",
                asset_class=kind,
                jitter="30m",
            )
            for kind in get_args(AssetKind)
            # The evidence of an advisory lane is recorded; running it every night says nothing new.
            if kind != "lane"
        ),
        Schedule(
            id="drift",
            kind="drift",
            cron="15 0 * * *",
            run=("drift", "probe", "--now", "{now}"),
            time_limit="30m",
        ),
        *(
            Schedule(
                id=f"calibration-refit-{kind}",
                kind="calibration_refit",
                cron="0 3 * * 0",
                asset_class=kind,
                catch_up="1w",
            )
            for kind in _REFITTED
        ),
        Schedule(
            id="adversarial",
            kind="adversarial",
            cron="0 4 * * 6",
            triggers=("threat",),
            catch_up="1w",
        ),
    )
)
"""The cadence of continuous evaluation. Refits have no command: their samples are the user's."""
