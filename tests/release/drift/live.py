"""A workspace with a live asset, points by the day, and a clock that goes on only when told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.release.lifecycle.sealed import result, sealed_pack_identity

from gatemark.core.canonical import digest
from gatemark.core.measurement import Measurement, measured
from gatemark.core.result import AssetKind
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.release.drift.point import Pushed
from gatemark.release.drift.probe import ProbeReport, probe
from gatemark.release.drift.push import push_points
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import (
    AddVersion,
    AdoptPolicy,
    Approve,
    GrantRoles,
    Promote,
    SetRequiredPack,
)
from gatemark.release.lifecycle.model.nouns import Stage
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

from .series import HEALTHY, START, by_tick, day

ASSET = "triage"
METRIC = "golden_accuracy"
PEOPLE: dict[str, tuple[Any, ...]] = {
    "root": ("admin",),
    "ann": ("author",),
    "eve": ("evaluator",),
    "bob": ("approver",),
    "olu": ("operator", "pack_owner"),
}


class Live:
    """One asset in a store, and days that go by."""

    def __init__(self, store: str, folder: Path) -> None:
        self.now = START - timedelta(days=1)
        self.folder = folder
        self.kind: AssetKind = "prompt"
        self.measurements: tuple[Measurement, ...] = ()
        self.workspace = Workspace(store=store, actor="olu", clock=lambda: self.now)

    def enable(
        self, version: str = "1.0.0", kind: AssetKind = "prompt", score: float | None = None
    ) -> None:
        """Bring a first version all the way up, with this score of its golden suite."""
        self.kind = kind
        if score is not None:
            found = measured("score", score, n=400, direction="higher_is_better", scope="golden")
            self.measurements = (found,)
        for person, roles in PEOPLE.items():
            act(self.workspace, GrantRoles(actor="root", person=person, roles=roles))
        act(self.workspace, AdoptPolicy(actor="root", policy=ReleasePolicy(name="no-wait")))
        self.to_shadow(version)
        self.do(Approve, "bob", version, stage="enabled", note="read it")
        self.promote(version, "enabled")

    def to_shadow(self, version: str) -> None:
        act(
            self.workspace,
            AddVersion(
                actor="ann", asset=ASSET, kind=self.kind, version=version, digest=digest(version)
            ),
        )
        act(
            self.workspace,
            SetRequiredPack(actor="olu", asset=ASSET, required_pack=sealed_pack_identity(self.now)),
        )
        self.promote(version, "evaluating", actor="ann")
        self.promote(version, "eligible", self.seal(version), actor="eve")
        self.promote(version, "shadow")

    def to_canary(self, version: str) -> None:
        enabled = self.place.enabled
        self.to_shadow(version)
        compared = self.seal(version, baseline=digest(enabled))
        self.do(Approve, "bob", version, stage="canary_1", result_ids=(compared,), note="read it")
        self.promote(version, "canary_1", compared)

    def seal(self, version: str, **more: Any) -> str:
        self.now += timedelta(minutes=1)
        title = f"{version} {self.now}"
        more["measurements"] = self.measurements
        made = result(ASSET, digest(version), self.now, title=title, **more)
        self.workspace.results.append(made)
        return made.id

    def do(self, command: Any, actor: str, version: str, **more: Any) -> None:
        self.now += timedelta(minutes=1)
        act(self.workspace, command(actor=actor, asset=ASSET, version=version, **more))

    def promote(self, version: str, to: Stage, *cites: str, actor: str = "olu") -> None:
        self.do(Promote, actor, version, to=to, result_ids=cites)

    @property
    def place(self) -> Any:
        return read_state(self.workspace, ASSET).asset.place("production")

    def stage(self, version: str = "1.0.0") -> str:
        return str(read_state(self.workspace, ASSET).asset.track("production", version).stage)

    def push(self, first: int, values: Sequence[float | None], **more: Any) -> Pushed:
        """Days of values from a day on."""
        lines = [
            point(first + place, value, **more)
            for place, value in enumerate(values)
            if value is not None
        ]
        return self.push_lines(lines, day(first + len(values)))

    def push_lines(self, lines: Sequence[dict[str, Any]], now: datetime) -> Pushed:
        path = self.folder / "points.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return push_points(self.workspace, [str(path)], ReadingChoices(), now=now)

    def probe(self, days: float, **more: Any) -> ProbeReport:
        self.now = max(self.now, day(days))
        # One version and no fallback: most tests look at what a breach does to it.
        policy = more.pop("policy", by_tick(on_breach="stop"))
        return probe(self.workspace, policy, now=day(days), **more)

    def events(self, kind: str) -> list[tuple[int, dict[str, Any]]]:
        return [(e.seq, dict(p or {})) for e, p in self.workspace.events.events(kind=kind)]


def point(number: int, value: float, **more: Any) -> dict[str, Any]:
    """A day's point."""
    return {
        "asset": ASSET,
        "metric": METRIC,
        "start": stamp(day(number)),
        "end": stamp(day(number + 1)),
        "value": value,
        "n": 1,
    } | more


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lively() -> list[float]:
    """Sixteen healthy days."""
    return list(HEALTHY)
