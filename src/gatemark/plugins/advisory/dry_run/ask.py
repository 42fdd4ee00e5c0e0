"""Open fixtures, labels and services, ask every question, and make a record of each.

Any problem with what is opened ends the run before the first question. After that only Ctrl-C stops
it. Nothing is written here, and no recommendation is acted on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from ulid import ULID

from gatemark.core.errors import BadInputError, UsageError
from gatemark.plugins.advisory.dry_run.calls import ask_service
from gatemark.plugins.advisory.dry_run.folder import RunCard, make_card, refuse_other_runs
from gatemark.plugins.advisory.dry_run.question import DEFAULT_COUNTER, CallQuestion, LaneSetting
from gatemark.plugins.advisory.dry_run.recording import (
    RecordedAdvice,
    read_recording,
    replay_recording,
)
from gatemark.plugins.advisory.dry_run.services import (
    MAX_REPLY_BYTES,
    ServiceSpec,
    parse_services,
    read_own_names,
)
from gatemark.plugins.advisory.exam import FUTURE_HOURS_MAX
from gatemark.plugins.advisory.fixtures.files import (
    BUILTIN,
    open_fixtures,
    open_inputs,
    read_fixture_labels,
)
from gatemark.plugins.advisory.fixtures.fixture import (
    MISSING_REFERENCE,
    FixtureLabels,
    FixtureSet,
    choose_reference,
    name_service,
)
from gatemark.plugins.advisory.policy import AdvisoryPolicy, make_lane_name
from gatemark.plugins.advisory.policy_file import read_advisory_policy
from gatemark.plugins.advisory.record import AdvisoryDecision, FallbackKind, Mode
from gatemark.plugins.advisory.taxonomy import Taxonomy
from gatemark.targets.outcomes import RunProgress
from gatemark.targets.port import Target
from gatemark.targets.run_options import RunOptions
from gatemark.workspace import Workspace

_RANDOM_BYTES: Final = 10
RandomBytes = Callable[[int], bytes]
"""Gives that many bytes; ``secrets.token_bytes`` where nobody replays."""


def make_ulid(at: datetime, random_bytes: RandomBytes) -> str:
    """Return a ULID: sortable by time, with 80 random bits."""
    moment_ms = int(at.timestamp() * 1000)
    return str(ULID(moment_ms.to_bytes(6, "big") + random_bytes(_RANDOM_BYTES)))


DEFAULT_RUNS: Final = 3
OnProgress = Callable[[int, int], None]
"""Called with (records made, records to make)."""


class AdvisoryChoices(msgspec.Struct, frozen=True):
    """Options of a dry run.

    The default of ``runs`` is three; one for a recording, and for a shadow, whose ``fixtures`` are
    real inputs.
    """

    services: tuple[str, ...]
    fixtures: str = BUILTIN
    runs: int | None = None
    mode: Mode = "dry_run"
    labels: str | None = None
    policy: str | None = None
    busy_counter: str = DEFAULT_COUNTER
    timeout_s: float = 10.0
    jobs: int = 1
    expected_fallbacks: frozenset[FallbackKind] = frozenset()
    is_shadow: bool = False

    def __post_init__(self) -> None:
        if self.mode == "offline_fixture" and self.runs not in (None, 1):
            raise UsageError("a recording has only one run; use --runs with live services")

    @property
    def run_count(self) -> int:
        """How often every fixture is asked."""
        is_once = self.is_shadow or self.mode == "offline_fixture"
        return self.runs or (1 if is_once else DEFAULT_RUNS)


class DryRun(msgspec.Struct, frozen=True):
    """The records of one run, in the order of the fixtures."""

    run_id: str
    decisions: tuple[AdvisoryDecision, ...]


class _Plan(msgspec.Struct, frozen=True):
    """Everything that is opened before the first question."""

    policy: AdvisoryPolicy
    fixtures: FixtureSet
    labels: FixtureLabels
    services: Mapping[str, ServiceSpec]
    recordings: Mapping[str, RecordedAdvice]
    repeated: int


class DryRuns(msgspec.Struct, frozen=True):
    """The questions, the services, the fixtures, and every run's records."""

    card: RunCard
    fixtures: FixtureSet
    runs: tuple[DryRun, ...]
    repeated: int = 0
    contradicted: tuple[str, ...] = ()
    """Fixtures that people label otherwise than their expected decision says."""


def ask_services(
    workspace: Workspace,
    choices: AdvisoryChoices,
    *,
    random_bytes: RandomBytes,
    out: Path | None = None,
    on_progress: OnProgress | None = None,
) -> DryRuns:
    """Return every run's records. Raises only before anything is asked; writes nothing.

    ``out`` is where they will be written: a folder with runs of something else is refused.
    """
    plan = _open(choices)
    _refuse_future(plan.labels, workspace.clock())
    card = make_card(
        (plan.fixtures.name, plan.fixtures.digest, plan.fixtures.pinned),
        choices.mode,
        {lane: (spec.named, spec.endpoint) for lane, spec in plan.services.items()},
    )
    if out is not None:
        refuse_other_runs(out, card)
    runs = asyncio.run(_Asking(workspace, choices, plan, random_bytes, on_progress).ask_all())
    return DryRuns(card, plan.fixtures, runs, plan.repeated, _find_contradicted(plan))


def _refuse_future(labels: FixtureLabels, now: datetime) -> None:
    """Refuse a decision that is dated in the future."""
    end = now.astimezone(UTC) + timedelta(hours=FUTURE_HOURS_MAX)
    for (name, _), label in labels.items():
        if label.timestamp and label.timestamp[:19].upper() > end.strftime("%Y-%m-%dT%H:%M:%S"):
            raise BadInputError(
                f"{name}: the time of its decision, {label.timestamp}, lies in the future, more "
                f"than {FUTURE_HOURS_MAX} hours after now"
            )


def _find_contradicted(plan: _Plan) -> tuple[str, ...]:
    return tuple(
        fixture.fixture_id
        for fixture in plan.fixtures.fixtures
        if fixture.expected is not None
        and (label := plan.labels.get((fixture.fixture_id, "human_label"))) is not None
        and (label.label, label.severity) != (fixture.expected.label, fixture.expected.severity)
    )


def open_policy(path: str | None) -> AdvisoryPolicy:
    """Return the policy that the run is judged by."""
    return msgspec.convert({} if path is None else read_advisory_policy(path), AdvisoryPolicy)


def _open(choices: AdvisoryChoices) -> _Plan:
    policy = open_policy(choices.policy)
    names = read_own_names(choices.services)

    def taxonomy_of(input_class: str) -> Taxonomy:
        service = names.get(input_class) or name_service(input_class)
        return policy.taxonomy(make_lane_name(input_class, service))

    labels: FixtureLabels = {}
    repeated = 0
    if choices.is_shadow:
        inputs = open_inputs(choices.fixtures, taxonomy_of)
        fixtures, labels, repeated = inputs.fixtures, inputs.labels, inputs.repeated
    else:
        fixtures = open_fixtures(choices.fixtures, taxonomy_of)
    if choices.labels is not None:
        given = read_fixture_labels(choices.labels, fixtures.fixtures, taxonomy_of, labels)
        labels = {**labels, **given}
    services = parse_services(choices.services, fixtures.lanes, choices.mode, jobs=choices.jobs)
    files = {spec.recording for spec in services.values() if spec.recording is not None}
    recordings = {path: read_recording(path, taxonomy_of) for path in files}
    return _Plan(policy, fixtures, labels, services, recordings, repeated)


class _Asking:
    """Asks every question of a plan, run by run; ids are made as they are needed."""

    def __init__(
        self,
        workspace: Workspace,
        choices: AdvisoryChoices,
        plan: _Plan,
        random_bytes: RandomBytes,
        on_progress: OnProgress | None,
    ) -> None:
        self._clock = workspace.clock
        self._choices = choices
        self._plan = plan
        self._random_bytes = random_bytes
        self._on_progress = on_progress
        self._specs = {spec.spelled: spec for spec in plan.services.values()}
        self._targets: dict[str, Target] = {}
        self._done = 0

    async def ask_all(self) -> tuple[DryRun, ...]:
        """Return the records of all runs; services are open as long as it takes."""
        try:
            for name, spec in self._specs.items():
                if spec.open is not None:
                    self._targets[name] = spec.open()
            return tuple([await self._ask_once() for _ in range(self._choices.run_count)])
        finally:
            for target in self._targets.values():
                await target.close()

    def _make_id(self) -> str:
        return make_ulid(self._clock(), self._random_bytes)

    def _make_setting(self, run_id: str, lane: str, spec: ServiceSpec) -> LaneSetting:
        plan, choices = self._plan, self._choices
        service = spec.name or name_service(lane)
        name = make_lane_name(lane, service)
        return LaneSetting(
            run_id=run_id,
            fixture_set=plan.fixtures.name,
            service=service,
            endpoint=spec.endpoint,
            mode=choices.mode,
            taxonomy=plan.policy.taxonomy(name),
            counter_path=choices.busy_counter,
            npu_in_sight=Path(choices.busy_counter).exists(),
            slo_ms=plan.policy.bounds(name).p95_total_ms_max,
            expected_fallbacks=choices.expected_fallbacks,
            is_shadow=plan.fixtures.is_shadow,
        )

    def _make_questions(self, run_id: str) -> list[CallQuestion]:
        """Return a question per fixture of a served lane, or per lane for health."""
        plan = self._plan
        settings = {
            lane: self._make_setting(run_id, lane, spec) for lane, spec in plan.services.items()
        }
        if self._choices.mode == "health_only":
            return [
                CallQuestion(self._make_id(), lane, setting, MISSING_REFERENCE)
                for lane, setting in settings.items()
            ]
        return [
            CallQuestion(
                self._make_id(),
                lane,
                settings[lane],
                choose_reference(fixture, plan.labels),
                fixture,
            )
            for fixture in plan.fixtures.fixtures
            if (lane := fixture.input_class) in settings
        ]

    async def _ask_once(self) -> DryRun:
        run_id = self._make_id()
        questions = self._make_questions(run_id)
        found: dict[str, AdvisoryDecision] = {}
        for spelled, spec in self._specs.items():
            services = self._plan.services
            own = [one for one in questions if services[one.input_class].spelled == spelled]
            if spec.recording is not None:
                recording = self._plan.recordings[spec.recording]
                answers = replay_recording(recording, own, self._clock())
            else:
                answers = await self._ask(self._targets[spelled], own, len(questions))
            self._done += len(own)
            found.update((decision.decision_id, decision) for decision in answers)
        return DryRun(run_id, tuple(found[question.decision_id] for question in questions))

    async def _ask(
        self, target: Target, questions: Sequence[CallQuestion], run_size: int
    ) -> list[AdvisoryDecision]:
        choices = self._choices

        def tell(progress: RunProgress) -> None:
            if self._on_progress is not None:
                self._on_progress(self._done + progress.done, run_size * choices.run_count)

        return await ask_service(
            target,
            questions,
            RunOptions(
                concurrency=choices.jobs,
                timeout_s=choices.timeout_s,
                max_reply_bytes=MAX_REPLY_BYTES,
            ),
            counter=Path(choices.busy_counter),
            now=lambda: self._clock().astimezone(UTC),
            on_progress=tell,
        )
