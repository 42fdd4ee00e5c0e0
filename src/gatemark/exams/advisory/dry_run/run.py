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
from msgspec import UNSET
from ulid import ULID

from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.rows import BadLine, json_rows
from gatemark.evidence.source import Limits, inspect_source
from gatemark.exams.advisory.decision import AdvisoryDecision, FallbackKind, Mode
from gatemark.exams.advisory.dry_run.calls import NOT_READ, ask_service
from gatemark.exams.advisory.dry_run.folder import RunCard, card_of, refuse_other_runs
from gatemark.exams.advisory.dry_run.leaks import OTHER, Leak
from gatemark.exams.advisory.dry_run.question import (
    DEFAULT_COUNTER,
    CallObservation,
    CallQuestion,
    LaneSetting,
)
from gatemark.exams.advisory.dry_run.reply import Advice, Conduct, NoAdvice, read_reply, withhold
from gatemark.exams.advisory.dry_run.services import (
    MAX_REPLY_BYTES,
    ServiceSpec,
    own_names,
    parse_services,
)
from gatemark.exams.advisory.dry_run.write_record import record_of
from gatemark.exams.advisory.exam import FUTURE_HOURS_MAX
from gatemark.exams.advisory.fixtures.files import (
    BUILTIN,
    open_fixtures,
    open_inputs,
    read_labels,
    refuse,
)
from gatemark.exams.advisory.fixtures.fixture import (
    NO_REFERENCE,
    FixtureSet,
    Labels,
    TaxonomyOf,
    reference_for,
    service_name,
)
from gatemark.exams.advisory.journey import read_advisory_policy
from gatemark.exams.advisory.policy import AdvisoryPolicy, Taxonomy, lane_name
from gatemark.exams.advisory.record_rules import privacy_breaches, side_effect_breaches
from gatemark.targets.port import Target
from gatemark.targets.runner import RunProgress
from gatemark.targets.spec import RunOptions
from gatemark.workspace import Workspace

_RANDOM_BYTES: Final = 10

RandomBytes = Callable[[int], bytes]
"""Gives that many bytes; ``secrets.token_bytes`` where nobody replays."""


def new_ulid(at: datetime, random_bytes: RandomBytes) -> str:
    """Return a ULID: sortable by time, with 80 random bits."""
    moment_ms = int(at.timestamp() * 1000)
    return str(ULID(moment_ms.to_bytes(6, "big") + random_bytes(_RANDOM_BYTES)))


NO_ANSWER = "recording_has_no_answer"

Recording = Mapping[str, Advice | NoAdvice]
"""What was recommended for each fixture."""


def read_recording(path: str, taxonomy_of: TaxonomyOf) -> Recording:
    """Return the recommendations of a decisions file; the last one of a fixture counts.

    Decisions without a usable recommendation stay unanswered. Bad conduct is never overwritten by a
    later record.
    """
    found: dict[str, Advice | NoAdvice] = {}
    problems: list[str] = []
    for place, value in json_rows(inspect_source(path), Limits()):
        if not isinstance(value, dict):
            why = value.reason if isinstance(value, BadLine) else "must be an object"
            problems.append(f"{place}: {why}")
            continue
        try:
            decision = msgspec.convert(value, AdvisoryDecision)
        except msgspec.ValidationError:
            problems.append(f"{place}: is not an advisory decision record")
            continue
        name = decision.source.fixture_id
        if isinstance(name, str):
            advice = _advice(decision, taxonomy_of(decision.input_class))
            earlier = found.get(name)
            conduct = advice.conduct if earlier is None else _worse(earlier.conduct, advice.conduct)
            if decision.fallback.kind == "service_unavailable":
                advice = earlier or NoAdvice(NO_ANSWER)
            found[name] = msgspec.structs.replace(advice, conduct=conduct)
    refuse(problems)
    if not any(isinstance(advice, Advice) for advice in found.values()):
        raise BadInputError(f"{path}: holds no recommendations")
    return found


def _worse(left: Conduct, right: Conduct) -> Conduct:
    return Conduct(
        requested=left.requested | right.requested,
        acted=left.acted or right.acted,
        leaks=tuple(sorted({*left.leaks, *right.leaks})),
    )


def _advice(decision: AdvisoryDecision, taxonomy: Taxonomy) -> Advice | NoAdvice:
    """Return the recommendation as if it were given now; bad conduct stays with it."""
    flags = msgspec.structs.asdict(decision.authority_flags)
    said = {
        **msgspec.to_builtins(decision.recommendation),
        "confidence": msgspec.to_builtins(decision.confidence).get("score"),
        "model": msgspec.to_builtins(decision.service).get("model"),
        # A missing flag is a violation, and stays one.
        "authority": {name: None if value is UNSET else value for name, value in flags.items()},
        "actions": list(decision.allowed_actions),
        "performed": bool(side_effect_breaches(decision)),
    }
    advice = read_reply(said, None, taxonomy)
    if privacy_breaches(decision):
        leaks = (*advice.conduct.leaks, Leak("recorded_violation", OTHER))
        worse = msgspec.structs.replace(advice.conduct, leaks=leaks)
        return msgspec.structs.replace(advice, conduct=worse)
    return advice


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
    labels: Labels
    services: Mapping[str, ServiceSpec]
    recordings: Mapping[str, Recording]
    repeated: int


class DryRuns(msgspec.Struct, frozen=True):
    """The questions, the services, the fixtures, and every run's records."""

    card: RunCard
    fixtures: FixtureSet
    runs: tuple[DryRun, ...]
    repeated: int = 0
    contradicted: tuple[str, ...] = ()
    """Fixtures that people label otherwise than their expected decision says."""


def run_advisory(
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
    card = card_of(
        (plan.fixtures.name, plan.fixtures.digest, plan.fixtures.pinned),
        choices.mode,
        {lane: (spec.named, spec.endpoint) for lane, spec in plan.services.items()},
    )
    if out is not None:
        refuse_other_runs(out, card)
    runs = asyncio.run(_Asking(workspace, choices, plan, random_bytes, on_progress).all_runs())
    return DryRuns(card, plan.fixtures, runs, plan.repeated, _contradicted(plan))


def _refuse_future(labels: Labels, now: datetime) -> None:
    """Refuse a decision that is dated in the future."""
    end = now.astimezone(UTC) + timedelta(hours=FUTURE_HOURS_MAX)
    for (name, _), label in labels.items():
        if label.timestamp and label.timestamp[:19].upper() > end.strftime("%Y-%m-%dT%H:%M:%S"):
            raise BadInputError(
                f"{name}: the time of its decision, {label.timestamp}, lies in the future, more "
                f"than {FUTURE_HOURS_MAX} hours after now"
            )


def _contradicted(plan: _Plan) -> tuple[str, ...]:
    return tuple(
        fixture.fixture_id
        for fixture in plan.fixtures.fixtures
        if fixture.expected is not None
        and (label := plan.labels.get((fixture.fixture_id, "human_label"))) is not None
        and (label.label, label.severity) != (fixture.expected.label, fixture.expected.severity)
    )


def advisory_policy(path: str | None) -> AdvisoryPolicy:
    """Return the policy that the run is judged by."""
    return msgspec.convert({} if path is None else read_advisory_policy(path), AdvisoryPolicy)


def _open(choices: AdvisoryChoices) -> _Plan:
    policy = advisory_policy(choices.policy)
    names = own_names(choices.services)

    def taxonomy_of(input_class: str) -> Taxonomy:
        service = names.get(input_class) or service_name(input_class)
        return policy.taxonomy(lane_name(input_class, service))

    labels: Labels = {}
    repeated = 0
    if choices.is_shadow:
        inputs = open_inputs(choices.fixtures, taxonomy_of)
        fixtures, labels, repeated = inputs.fixtures, inputs.labels, inputs.repeated
    else:
        fixtures = open_fixtures(choices.fixtures, taxonomy_of)
    if choices.labels is not None:
        given = read_labels(choices.labels, fixtures.fixtures, taxonomy_of, labels)
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

    async def all_runs(self) -> tuple[DryRun, ...]:
        """Return the records of all runs; services are open as long as it takes."""
        try:
            for name, spec in self._specs.items():
                if spec.open is not None:
                    self._targets[name] = spec.open()
            return tuple([await self._one_run() for _ in range(self._choices.run_count)])
        finally:
            for target in self._targets.values():
                await target.close()

    def _new_id(self) -> str:
        return new_ulid(self._clock(), self._random_bytes)

    def _setting(self, run_id: str, lane: str, spec: ServiceSpec) -> LaneSetting:
        plan, choices = self._plan, self._choices
        service = spec.name or service_name(lane)
        name = lane_name(lane, service)
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

    def _questions(self, run_id: str) -> list[CallQuestion]:
        """Return a question per fixture of a served lane, or per lane for health."""
        plan = self._plan
        settings = {lane: self._setting(run_id, lane, spec) for lane, spec in plan.services.items()}
        if self._choices.mode == "health_only":
            return [
                CallQuestion(self._new_id(), lane, setting, NO_REFERENCE)
                for lane, setting in settings.items()
            ]
        return [
            CallQuestion(
                self._new_id(), lane, settings[lane], reference_for(fixture, plan.labels), fixture
            )
            for fixture in plan.fixtures.fixtures
            if (lane := fixture.input_class) in settings
        ]

    async def _one_run(self) -> DryRun:
        run_id = self._new_id()
        questions = self._questions(run_id)
        found: dict[str, AdvisoryDecision] = {}
        for spelled, spec in self._specs.items():
            services = self._plan.services
            own = [one for one in questions if services[one.input_class].spelled == spelled]
            if spec.recording is not None:
                recording = self._plan.recordings[spec.recording]
                answers = _from_recording(recording, own, self._clock())
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


def _from_recording(
    recording: Recording, questions: Sequence[CallQuestion], at: datetime
) -> list[AdvisoryDecision]:
    """Return earlier recommendations under new ids; nothing is called, so nothing is timed."""
    seen = CallObservation(None, NOT_READ, NOT_READ, alone=False)
    answers: list[AdvisoryDecision] = []
    for question in questions:
        name = question.fixture.fixture_id if question.fixture is not None else ""
        advice: Advice | NoAdvice = recording.get(name) or NoAdvice(NO_ANSWER)
        advice = withhold(advice, msgspec.to_builtins(advice), question.payload)
        answers.append(record_of(question, advice, at.astimezone(UTC), seen))
    return answers
