"""Somebody who does whatever dice say to an asset, sensible or not, and keeps simple books.

The books know nothing of the lifecycle's own code: they only read what was written.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any, ClassVar

from tests.release.lifecycle.replay import replay

from gatemark.core.canonical import digest
from gatemark.core.errors import RefusedError
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import (
    AddVersion,
    Approve,
    Command,
    Demote,
    GrantRoles,
    PauseVersion,
    Promote,
    PushWindow,
    ResumeVersion,
    ReviewBreakGlass,
    RollBack,
    SetRequiredPack,
    Tick,
    Waive,
)
from gatemark.release.lifecycle.routing import route
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

from .sealed import LAXER, POLICY, result, sealed_pack_identity
from .world import START, window

PEOPLE: dict[str, tuple[Any, ...]] = {
    "root": ("admin",),
    "ann": ("author", "approver"),
    "eve": ("evaluator", "pack_owner"),
    "bob": ("approver",),
    "cat": ("security_approver", "approver"),
    "olu": ("operator",),
    "tom": ("viewer",),
}
VERSIONS = ("1.0.0", "1.1.0", "2.0.0")
ENVIRONMENTS = ("production", "staging")
STAGES = ("evaluating", "rejected", "eligible", "shadow", "canary_1", "enabled")
HAVE_EVIDENCE = frozenset(
    {"eligible", "shadow", "canary_1", "canary_5", "canary_25", "enabled", "superseded"}
)
WINDOW = timedelta(minutes=15)


class Clock:
    """A clock that only goes when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


class Walker:
    """One asset's life in a workspace."""

    habits: ClassVar[dict[str, float]] = {
        "climb": 6,
        "promote": 5,
        "approve": 2,
        "measure": 3,
        "tick": 1,
        "demote": 0.7,
        "roll_back": 1,
        "pause_and_resume": 0.7,
        "waive": 0.5,
        "break_glass": 0.4,
        "seal": 1.5,
        "add": 1,
        "let_time_pass": 1.5,
        "act_with_a_clock_set_back": 0.4,
        "change_roles": 0.4,
    }

    def __init__(self, workspace: Workspace, clock: Clock, asset: str, tally: Counter[str]) -> None:
        self.workspace, self.clock, self.asset, self.tally = workspace, clock, asset, tally
        self.dice = Random(0)
        self.seen = workspace.events.head().seq
        self.stages: dict[tuple[str, str], str] = {}
        self.cites: dict[str, list[str]] = {version: [] for version in VERSIONS}
        self.sealed: dict[str, tuple[str, str]] = {}
        self.sealed_at: dict[str, datetime] = {}
        self.fell_at: dict[tuple[str, str], datetime] = {}
        self.authors: dict[str, str] = {}
        self.votes: dict[int, dict[str, Any]] = {}
        for version in VERSIONS[:2]:
            self.add(version)

    def live_on(self, seed: int, count: int) -> None:
        """A bout of acts."""
        self.dice = Random(seed)
        acts, weights = zip(*self.habits.items(), strict=True)
        for name in self.dice.choices(acts, weights, k=count):
            getattr(self, name)()

    # What dice say.

    def version(self) -> str:
        return self.dice.choice(VERSIONS)

    def place(self) -> str:
        return self.dice.choices(ENVIRONMENTS, (4, 1))[0]

    def person(self, *likely: str) -> str:
        return self.dice.choice((*PEOPLE, SYSTEM, "nobody", *likely * 6))

    def one_in(self, sides: int) -> bool:
        return self.dice.randrange(sides) == 0

    def by(self, actor: str, environment: str) -> dict[str, Any]:
        return {"actor": actor, "asset": self.asset, "environment": environment}

    def candidate(self, version: str) -> str:
        return digest({"asset": self.asset, "version": version})

    def live(self, environment: str) -> str | None:
        for (place, version), stage in self.stages.items():
            if (place, stage) == (environment, "enabled"):
                return version
        return None

    # What is done, and what it left behind.

    def do(self, command: Command) -> bool:
        self.tally["commands"] += 1
        try:
            acted = act(self.workspace, command)
        except RefusedError:
            self.tally["refused"] += 1
            return False
        self.tally["carried out" if acted.is_change else "nothing to do"] += 1
        if acted.is_change:
            self.check_events()
        return acted.is_change

    def check_events(self) -> None:
        """What was written must hold by itself."""
        for event, payload in self.workspace.events.events(self.seen, subject=self.asset):
            self.seen = event.seq
            assert payload is not None
            if event.kind == "asset_registered":
                self.authors[str(payload["version"])] = str(payload["author"])
            elif event.kind == "approval":
                self.votes[event.seq] = {**payload, "at": event.at}
                assert event.actor != self.authors[str(payload["version"])]
            elif event.kind == "transition":
                self.check_move(event.at, dict(payload))
        for environment in ENVIRONMENTS:
            places = [stage for (place, _), stage in self.stages.items() if place == environment]
            assert places.count("enabled") <= 1
            assert sum(stage.startswith("canary") for stage in places) <= 1

    def check_move(self, at: datetime, moved: dict[str, Any]) -> None:
        key = (moved["environment"], moved["version"])
        self.tally[f"to {moved['after']}"] += 1
        assert moved["before"] == self.stages.get(key, "draft")
        self.stages[key] = moved["after"]
        if moved["after"] in HAVE_EVIDENCE:
            assert moved["result_ids"]
            for result_id in moved["result_ids"]:
                assert self.sealed[result_id] == (self.candidate(moved["version"]), "pass")
        if moved["after"] in ("rejected", "demoted", "rolled_back"):
            self.fell_at[key] = at
        if moved["after"] == "eligible" and key in self.fell_at:
            newest = max(self.sealed_at[result_id] for result_id in moved["result_ids"])
            assert newest > self.fell_at[key]
        if moved["after"] in ("canary_1", "enabled") and moved["cause"] == "promote":
            assert moved["approvals"]
            for seq in moved["approvals"]:
                vote = self.votes[seq]
                assert vote["stage"] == moved["after"]
                assert sorted(vote["result_ids"]) == sorted(moved["result_ids"])
                assert vote["at"] <= at < datetime.fromisoformat(vote["expires_at"])

    def check_whole(self) -> None:
        """The state follows from the ledger alone, and only what has evidence is routed."""
        known = read_state(self.workspace, self.asset)
        assert replay(self.workspace.events, self.asset) == known
        told = {
            (environment, name): track.stage
            for environment, place in known.asset.places.items()
            for name, track in place.tracks.items()
            if track.seq
        }
        assert told == self.stages
        for environment in ENVIRONMENTS:
            # What is due is done, so that no glass counts beyond its time.
            self.do(Tick(**self.by(SYSTEM, environment)))
            served = route(self.workspace, self.asset, environment).primary
            assert (served and served.version) == self.live(environment)

    # The acts.

    def add(self, version: str | None = None) -> None:
        name = version or self.version()
        actor = "ann" if version else self.person("ann")
        self.do(
            AddVersion(
                actor=actor,
                asset=self.asset,
                kind="prompt",
                version=name,
                digest=self.candidate(name),
            )
        )
        self.do(
            SetRequiredPack(
                actor="eve", asset=self.asset, required_pack=sealed_pack_identity(START)
            )
        )

    def seal(
        self, version: str | None = None, against: str | None = None, verdict: str | None = None
    ) -> None:
        """A result, now and then a failed one, of a laxer exam, or about another version."""
        name = version or self.version()
        about = self.version() if version is None and self.one_in(6) else name
        verdict = verdict or ("fail" if self.one_in(3) else "pass")
        lax = version is None and self.one_in(6)
        self.clock.now += timedelta(minutes=1)
        made = result(
            self.asset,
            self.candidate(about),
            self.clock.now,
            title=f"{self.asset} {self.clock.now.isoformat()}",
            verdict=verdict,
            baseline=None if against is None else self.candidate(against),
            policy=LAXER if lax else POLICY,
        )
        self.workspace.results.append(made)
        self.cites[name].append(made.id)
        self.sealed[made.id] = (self.candidate(about), verdict)
        self.sealed_at[made.id] = self.clock.now

    def promote(self) -> None:
        version = self.version()
        result_ids = tuple(self.cites[version][-self.dice.randrange(3) :])[:2]
        if self.one_in(8):
            result_ids = (digest("nowhere"),)
        self.do(
            Promote(
                version=version,
                to="retired" if self.one_in(40) else self.dice.choice(STAGES),  # type: ignore[arg-type]
                result_ids=result_ids if self.one_in(2) else (),
                expected_revision=1 if self.one_in(8) else None,
                **self.by(self.person("olu", "eve", "ann"), self.place()),
            )
        )

    def climb(self) -> None:
        """What a well-meaning team would do next, for a while."""
        version, environment = self.version(), self.place()
        for _ in range(self.dice.randint(1, 5)):
            self.step_up(version, environment)
            if self.stages.get((environment, version), "").startswith("canary"):
                for _ in range(2):
                    self.measure(environment, "clean")

    def step_up(self, version: str, environment: str) -> None:
        live = self.live(environment)
        after = {
            "draft": "evaluating",
            "rejected": "evaluating",
            "demoted": "evaluating",
            "rolled_back": "evaluating",
            "evaluating": "eligible",
            "eligible": "shadow",
            "shadow": "canary_1" if live else "enabled",
            "canary_25": "enabled",
        }.get(self.stages.get((environment, version), "draft"))
        if after is None:
            return
        result_ids: tuple[str, ...] = ()
        if after in ("eligible", "canary_1"):
            verdict = "fail" if after == "eligible" and self.one_in(6) else "pass"
            self.seal(version, live, verdict)
            result_ids = (self.cites[version][-1],)
            after = "rejected" if verdict == "fail" else after
        if after in ("canary_1", "enabled"):
            self.approve(version, environment, after, result_ids)
        actor = {"evaluating": "ann", "eligible": "eve", "rejected": "eve"}.get(after, "olu")
        # Somebody tries whether an old result will do.
        old = self.cites[version][:1] if after == "eligible" and self.one_in(2) else []
        for cited in (*((one,) for one in old), result_ids):
            self.do(
                Promote(
                    version=version,
                    to=after,  # type: ignore[arg-type]
                    result_ids=cited,
                    **self.by(actor, environment),
                )
            )

    def approve(
        self,
        version: str | None = None,
        environment: str | None = None,
        stage: str | None = None,
        result_ids: tuple[str, ...] = (),
    ) -> None:
        actor = "bob" if version else self.person("bob", "cat")
        self.do(
            Approve(
                version=version or self.version(),
                stage=stage or self.dice.choice(("canary_1", "enabled", "shadow")),  # type: ignore[arg-type]
                result_ids=result_ids,
                note="read the results",
                **self.by(actor, environment or self.place()),
            )
        )

    def demote(self) -> None:
        version = None if self.one_in(2) else self.version()
        to: Any = self.dice.choice(("shadow", "demoted"))
        self.do(
            Demote(
                version=version,
                to=to,
                stop=True,
                note="odd",
                **self.by(self.person(SYSTEM), self.place()),
            )
        )

    def roll_back(self) -> None:
        version = None if self.one_in(2) else self.version()
        to = self.version() if self.one_in(3) else None
        command = RollBack(
            version=version, to=to, stop=True, **self.by(self.person("olu"), self.place())
        )
        if self.do(command):
            assert not self.do(command)

    def pause_and_resume(self) -> None:
        version, environment = self.version(), self.place()
        by = self.by(self.person("olu"), environment)
        self.do(PauseVersion(version=version, reason="operator", **by))
        self.do(ResumeVersion(version=version, **self.by("olu", environment)))

    def waive(self) -> None:
        self.do(
            Waive(
                version=self.version(),
                gate=self.dice.choice(("replay", "eval")),
                expires_at=self.clock.now + timedelta(days=2),
                note="because",
                **self.by(self.person("olu"), self.place()),
            )
        )

    def break_glass(self) -> None:
        version, environment = self.version(), self.place()
        by = self.by(self.person("olu"), environment)
        self.do(Promote(version=version, to="enabled", incident="INC-1", note="now", **by))
        if self.one_in(2):
            self.do(
                ReviewBreakGlass(
                    version=version, note="read it", **self.by(self.person("bob"), environment)
                )
            )

    def measure(self, environment: str | None = None, kind: str | None = None) -> None:
        """Let a window pass, hand in what it brought, and tick."""
        where = environment or self.place()
        kind = kind or self.dice.choice((*("clean",) * 4, "slow", "broken", "few"))
        behind = (self.clock.now - START) % WINDOW
        start = self.clock.now - behind + (WINDOW if behind else timedelta())
        self.clock.now = start + WINDOW
        pushed = window(
            start,
            latency=(140.0 if kind == "slow" else 100.0, 100.0),
            violations=int(kind == "broken"),
            n=5 if kind == "few" else 200,
        )
        self.do(
            PushWindow(
                start=start,
                end=pushed.end,
                metrics=pushed.metrics,
                invariants=pushed.invariants,
                traffic=pushed.traffic,
                **self.by("eve", where),
            )
        )
        self.tick(where)

    def tick(self, environment: str | None = None) -> None:
        where = environment or self.place()
        actor = SYSTEM if environment or not self.one_in(4) else "olu"
        for _ in range(12):
            if not self.do(Tick(**self.by(actor, where))):
                return

    def let_time_pass(self) -> None:
        self.clock.now += timedelta(hours=self.dice.choice((1, 5, 25, 73)))

    def act_with_a_clock_set_back(self) -> None:
        right = self.clock.now
        head = self.workspace.events.head().seq
        (last,) = [event.at for event, _ in self.workspace.events.events(head - 1)]
        self.clock.now = last - timedelta(days=3)
        by = self.by("olu", "production")
        assert not self.do(Promote(version=self.version(), to="retired", **by))
        self.do(RollBack(**by))
        self.clock.now = right

    def change_roles(self) -> None:
        roles: Any = () if self.one_in(2) else ("approver",)
        self.do(GrantRoles(actor="bob", person="bob", roles=("admin",)))
        self.do(GrantRoles(actor="root", person="cat", roles=roles))
