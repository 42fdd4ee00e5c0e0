"""The stories that store fixtures tell: who did what, in which order, as commands."""

from __future__ import annotations

from typing import Final

from store_fixture import data, drift, exams, lifecycle, people
from store_fixture.packs import refit, seal_own_scorer, seal_packs, write_packs
from store_fixture.stage import Stage

FIRST_KEY: Final = "ledger.key"
NEXT_KEY: Final = "next.key"
PEOPLE: Final = {
    "ana": ("admin",),
    "ben": ("author", "evaluator"),
    "cleo": ("approver",),
    "dai": ("pack_owner", "operator"),
    "eve": ("approver", "security_approver"),
}


def full(on: Stage) -> None:
    """Everything this build can write, with nothing erased."""
    roles(on)
    # Before the first promotion, which would make a key of the machine's own.
    first_key(on)
    write_packs(on)
    lifecycle.first_version(on)
    lifecycle.rejected_version(on)
    lifecycle.second_version(on)
    checkpoint(on, FIRST_KEY)
    lifecycle.third_version(on)
    lifecycle.broken_glass(on)
    lifecycle.forgotten_glass(on)
    lifecycle.adopt_policy(on)
    lifecycle.waived_version(on)
    checkpoint(on, FIRST_KEY)
    lifecycle.other_assets(on)
    people.reviews(on)
    people.labels(on)
    people.attributions(on)
    people.accounts_of_people(on)
    drift.live_desk(on)
    drift.decline(on)
    drift.come_back(on)
    drift.warned(on)
    drift.schedules(on)
    on.run("drift", "derive")
    refit(on, lifecycle.SORTER, "1.6.0")
    next_key(on, "--signing-key", FIRST_KEY)
    checkpoint(on, NEXT_KEY)
    lifecycle.adopt_rank_policy(on)
    lifecycle.open_canary(on)
    exams.seal_exams(on)
    seal_packs(on)
    checkpoint(on, NEXT_KEY)
    prove(on)
    export(on, NEXT_KEY)


def minimal(on: Stage) -> None:
    """One sealed result and nothing else: what a first try leaves behind."""
    on.lines("evidence/pairs.jsonl", data.pairs(60))
    exams.seal(on, "agreement", "agreement pass", 0, "--pairs", "evidence/pairs.jsonl")


def erased(on: Stage) -> None:
    """What cannot be derived again: erased payloads and blobs, a lost key, a clock set back."""
    roles(on)
    # Before the first promotion, which would make a key of the machine's own.
    first_key(on)
    write_packs(on)
    exams.agreement(on)
    exams.runlog(on, "--seal")
    seal_own_scorer(on)
    lifecycle.first_version(on)
    people.accounts_of_people(on)
    people.attributions(on)
    checkpoint(on, FIRST_KEY)
    for event in on.json("ledger", "log", "--limit", 1_000):
        if event["kind"] in ("sign_in_failed", "signed_in"):
            on.run("ledger", "erase", event["seq"], "--reason", "request 4711")
    first = on.json("list", "--limit", 1_000)[-1]["id"]
    (file,) = on.json("show", first)["evidence"][0]["files"]
    on.run("ledger", "erase", file["digest"], "--reason", "request 4712: a name was in it")
    ahead = on.clock.now
    on.clock.add(days=2)
    on.run("role", "grant", "hal", "viewer", "--note", "by a clock that was ahead")
    on.clock.now = ahead
    on.run("ledger", "resync-clock", "--reason", "host b was two days ahead")
    next_key(on, "--lost", "the laptop was stolen")
    checkpoint(on, NEXT_KEY)
    export(on, NEXT_KEY)


def roles(on: Stage) -> None:
    """Roles for everybody, given by the first admin."""
    for person, roles in PEOPLE.items():
        on.run("role", "grant", person, *roles)


def first_key(on: Stage) -> None:
    """Make the ledger's first key."""
    on.run("ledger", "keygen", FIRST_KEY)
    on.notes["keys"] = [FIRST_KEY]


def next_key(on: Stage, *why: str) -> None:
    """Let another key follow."""
    on.run("ledger", "rotate", NEXT_KEY, *why)
    on.notes["keys"] = [FIRST_KEY, NEXT_KEY]


def checkpoint(on: Stage, name: str) -> None:
    """Sign how far the ledger goes, and keep a copy of what was signed."""
    file = f"checkpoint-{len(on.notes['checkpoints']) + 1}.txt"
    on.run("ledger", "checkpoint", "--signing-key", name, "-o", file)
    on.notes["checkpoints"].append(file)


def prove(on: Stage) -> None:
    """Proofs that need nothing but a public key: of one event, and of growth."""
    on.write("proof.json", on.run("ledger", "prove", 3))
    first = on.notes["checkpoints"][0]
    on.write("growth.json", on.run("ledger", "prove", "--since", first))
    on.notes["proofs"] = ["proof.json", "growth.json"]


def export(on: Stage, name: str) -> None:
    """Write the ledger into a folder that needs no store."""
    on.run("ledger", "export", "export", "--signing-key", name)


STORIES: Final = {"full": full, "minimal": minimal, "erased": erased}
