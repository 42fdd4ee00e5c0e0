"""A small pure world: people, results, a clock, and events that go nowhere but a list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from gatemark.core.canonical import digest
from gatemark.ledger.event_kinds import LIFECYCLE_RULES, SYSTEM, Channel, DecidedBy
from gatemark.release.lifecycle.commands import (
    AddVersion,
    AdoptPolicy,
    Approve,
    Command,
    GrantRoles,
    Promote,
    PushWindow,
    SetRequiredPack,
    Tick,
)
from gatemark.release.lifecycle.decisions.decide import decide
from gatemark.release.lifecycle.events.fact import Fact, LifecycleEvent, advance, fold
from gatemark.release.lifecycle.model.nouns import (
    ArmMetric,
    Cited,
    CitedSuite,
    InvariantCount,
    PackIdentity,
    SampleMoments,
    Traffic,
)
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.release.lifecycle.model.state import LifecycleState

START = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
ASSET = "triage"
PEOPLE: dict[str, tuple[Any, ...]] = {
    "root": ("admin",),
    "ann": ("author",),
    "eve": ("evaluator",),
    "pam": ("pack_owner", "approver"),
    "bob": ("approver",),
    "cat": ("approver", "security_approver"),
    "olu": ("operator",),
}
SUITES = (
    CitedSuite("golden", "golden"),
    CitedSuite("recent", "replay"),
    CitedSuite("probes", "adversarial"),
)


def candidate(version: str) -> str:
    return digest({"candidate": version})


def pack_identity(policy: str = "p1") -> PackIdentity:
    return PackIdentity(pack="triage", version=3, policy=digest(policy), snapshots=("golden@1",))


class World:
    """Everything a decision needs, at hand."""

    def __init__(self, policy: ReleasePolicy | None = None) -> None:
        self.now = START
        self.lines: list[LifecycleEvent] = []
        self.state: LifecycleState = fold(ASSET, ())
        self.results: dict[str, Cited] = {}
        for person, roles in PEOPLE.items():
            self.do(GrantRoles(actor="root", person=person, roles=roles))
        self.do(AdoptPolicy(actor="root", policy=policy or ReleasePolicy()))

    @property
    def by(self) -> DecidedBy:
        """What decides now: the policy in force, and the rules."""
        channel = Channel("command_line", "none")
        return DecidedBy(self.state.governance.policy_digest, LIFECYCLE_RULES.current, channel)

    def do(self, command: Command) -> tuple[Fact, ...]:
        """Decide, and let the facts happen."""
        if hasattr(command, "evidence"):
            changes: dict[str, Any] = {"evidence": self.results}
            command = msgspec.structs.replace(command, **changes)
        decided = decide(self.state, command, self.now)
        by = self.by
        for fact in decided.facts:
            line = LifecycleEvent(len(self.lines) + 1, command.actor, decided.at, fact, by)
            self.lines.append(line)
            advance(self.state, line)
        return decided.facts

    def later(self, **span: float) -> None:
        self.now += timedelta(**span)

    def result(
        self,
        version: str,
        *,
        verdict: Any = "pass",
        baseline: str | None = None,
        sat: PackIdentity | None = None,
        suites: tuple[CitedSuite, ...] = SUITES,
        excused: tuple[str, ...] = (),
    ) -> str:
        """A new sealed result."""
        result_id = digest({"result": len(self.results), "version": version})
        self.results[result_id] = Cited(
            id=result_id,
            verdict=verdict,
            candidate_digest=candidate(version),
            baseline_digest=candidate(baseline) if baseline else None,
            pack=sat or pack_identity(),
            suites=suites,
            excused=excused,
            answered_at=self.now,
        )
        return result_id

    def add(self, version: str, **more: Any) -> None:
        fields: dict[str, Any] = {"kind": "prompt", "digest": candidate(version), **more}
        self.do(AddVersion(actor="ann", asset=ASSET, version=version, **fields))
        if self.state.asset.required_pack is None:
            self.do(SetRequiredPack(actor="pam", asset=ASSET, required_pack=pack_identity()))

    def promote(self, version: str, to: Any, *cites: str, actor: str = "olu", **more: Any) -> Any:
        return self.do(
            Promote(actor=actor, asset=ASSET, version=version, to=to, result_ids=cites, **more)
        )

    def approve(
        self, version: str, stage: Any, *cites: str, actor: str = "bob", **more: Any
    ) -> Any:
        said: dict[str, Any] = {"note": "read the results", **more}
        return self.do(
            Approve(
                actor=actor, asset=ASSET, version=version, stage=stage, result_ids=cites, **said
            )
        )

    def to_shadow(self, version: str, **more: Any) -> None:
        self.add(version, **more)
        self.promote(version, "evaluating", actor="ann")
        self.promote(version, "eligible", self.result(version), actor="eve")
        self.promote(version, "shadow")

    def enable_first(self, version: str = "1.0.0") -> None:
        """The first version of all, which has nothing to be compared with."""
        self.to_shadow(version)
        self.approve(version, "enabled")
        self.promote(version, "enabled")

    def end_watch(self) -> None:
        self.later(hours=25)
        self.tick()

    def to_canary(self, version: str) -> None:
        self.to_shadow(version)
        self.later(minutes=1)
        compared = self.result(version, baseline=self.state.asset.place("production").enabled)
        self.approve(version, "canary_1", compared)
        self.promote(version, "canary_1", compared)

    def next_start(self) -> datetime:
        """Where the next window starts; the clock goes on to its end."""
        length = timedelta(minutes=15)
        rollout = self.state.asset.place("production").rollout
        assert rollout is not None
        since = max(rollout.step_since, rollout.judged_until or rollout.step_since)
        behind = (since - datetime(1970, 1, 1, tzinfo=UTC)) % length
        start = since if not behind else since + length - behind
        self.now = max(self.now, start + length)
        return start

    def push(self, **more: Any) -> Any:
        """One closed window of measurements, clean unless said otherwise."""
        return self.do(window(self.next_start(), **more))

    def tick(self) -> list[Fact]:
        """Do all that is due."""
        done: list[Fact] = []
        while facts := self.do(Tick(actor=SYSTEM, asset=ASSET)):
            done.extend(facts)
        return done

    def clean_windows(self, count: int) -> list[Fact]:
        done: list[Fact] = []
        for _ in range(count):
            self.push()
            done.extend(self.tick())
        return done

    def stage(self, version: str) -> str:
        return self.state.asset.track("production", version).stage


def arm(arm_name: Any, metric: str, mean: float, *, n: int = 200, sd: float = 1.0) -> ArmMetric:
    moments = SampleMoments(n=n, sum=n * mean, sum_squares=n * (mean * mean + sd * sd))
    return ArmMetric(metric=metric, arm=arm_name, moments=moments)


def window(
    start: datetime,
    *,
    errors: tuple[int, int] = (2, 2),
    latency: tuple[float, float] = (100.0, 100.0),
    n: int = 200,
    canary_n: int | None = None,
    violations: int = 0,
    traffic: tuple[int, int] | None = (200, 200),
    invariants: tuple[str, ...] = ("schema", "authority", "privacy"),
) -> PushWindow:
    """A window of measurements; errors and latency are those of canary and baseline."""
    metrics = []
    sizes = (n if canary_n is None else canary_n, n)
    for name, size, wrong, mean in zip(("canary", "baseline"), sizes, errors, latency, strict=True):
        counts = SampleMoments(n=size, sum=wrong, sum_squares=wrong)
        metrics.append(ArmMetric(metric="error_rate", arm=name, moments=counts))  # type: ignore[arg-type]
        metrics.append(arm(name, "latency_ms", mean, n=size, sd=10.0))
    return PushWindow(
        actor="eve",
        asset=ASSET,
        start=start,
        end=start + timedelta(minutes=15),
        metrics=tuple(metrics),
        invariants=tuple(
            InvariantCount(name=name, checked=n, violations=violations) for name in invariants
        ),
        traffic=None if traffic is None else Traffic(canary=traffic[0], baseline=traffic[1]),
    )
