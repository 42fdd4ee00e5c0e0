"""The stories that store fixtures tell: who did what, in which order, as commands."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import fixture_data as data
from fixture_stage import Stage

ASSET: Final = "mail-sorter"
PEOPLE: Final = {
    "ana": ("admin",),
    "ben": ("author", "evaluator"),
    "cleo": ("approver",),
    "dai": ("pack_owner", "operator"),
    "eve": ("approver", "security_approver"),
}


def full(on: Stage) -> None:
    """Everything this build can write and nothing erased."""
    people(on)
    exams(on)
    first_version(on)
    key(on, "ledger.key")
    second_version(on)
    checkpoint(on, "ledger.key")
    on.run("ledger", "export", "export", "--signing-key", "ledger.key")


def people(on: Stage) -> None:
    """Roles for everybody, given by the first admin."""
    for person, roles in PEOPLE.items():
        on.run("role", "grant", person, *roles)


def exams(on: Stage) -> None:
    """Sealed results of the exams that stand alone."""
    good = on.lines("evidence/pairs.jsonl", data.pairs(60))
    seal_agreement(on, "agreement pass", 0, "--pairs", good)
    poor = data.pairs(60, disagreeing=24)
    scholar = on.lines("evidence/scholar.jsonl", data.judgements(poor, "scholar"))
    auditor = on.lines("evidence/auditor.jsonl", data.judgements(poor, "auditor"))
    seal_agreement(on, "agreement fail", 1, "--scholar", scholar, "--auditor", auditor)


def seal_agreement(on: Stage, title: str, code: int, *words: object) -> None:
    """Seal one agreement result under a title."""
    on.run("score", "agreement", *words, "--seal", "--title", title, actor="ben", codes=(code,))


def write_packs(on: Stage) -> None:
    """The full pack of the asset, with its data and its targets."""
    on.write("packs/sorter.py", data.SORTER)
    on.lines("packs/data/golden.jsonl", data.mail("golden", 60))
    on.lines("packs/data/recent.jsonl", data.mail("recent", 40))
    on.lines("packs/data/attacks.jsonl", data.attacks(12))


def examine(on: Stage, candidate: str, *words: object, code: int = 0, **more: Any) -> str:
    """Run the full pack about one of the sorters and return the id of the result."""
    name = f"packs/{candidate}.yaml"
    on.write(name, data.pack(candidate, **more))
    result = on.json("run", name, *words, actor="ben", codes=(code,))
    return str(result["id"])


def to_shadow(on: Stage, version: str, result: str) -> None:
    """From draft to shadow on one result."""
    ref = f"{ASSET}@{version}"
    on.run("promote", ref, "--to", "evaluating", actor="ben")
    on.run("promote", ref, "--to", "eligible", "--cite", result, actor="ben")
    on.run("promote", ref, "--to", "shadow", actor="dai")


def first_version(on: Stage) -> None:
    """The first version goes from draft to enabled under the default release policy."""
    write_packs(on)
    first = examine(on, "v1")
    on.run(
        *("asset", "add", f"{ASSET}@1.0.0", "--kind", "classifier", "--from", first),
        *("--pin", "model=sorter-1", "--pin", "tool.labels=labels-1"),
        actor="ben",
    )
    on.run("asset", "pack", ASSET, "packs/v1.yaml", actor="dai")
    to_shadow(on, "1.0.0", first)
    on.refused("promote", f"{ASSET}@1.0.0", "--to", "enabled", actor="dai")
    on.run("approve", f"{ASSET}@1.0.0", "--to", "enabled", actor="cleo")
    on.run("promote", f"{ASSET}@1.0.0", "--to", "enabled", actor="dai")


def second_version(on: Stage) -> None:
    """The second version: turned down once, then through the canary to enabled."""
    ref = f"{ASSET}@1.1.0"
    second = examine(on, "v2")
    on.run("asset", "add", ref, "--from", second, "--pin", "model=sorter-2", actor="ben")
    to_shadow(on, "1.1.0", second)
    on.clock.add(hours=2)
    compared = examine(on, "v2")
    on.run(
        *("approve", ref, "--to", "canary", "--cite", compared, "--decision", "reject"),
        *("--note", "wait for the night shift"),
        actor="cleo",
    )
    on.refused("promote", ref, "--to", "canary", "--cite", compared, actor="dai")
    on.run("approve", ref, "--to", "canary", "--cite", compared, actor="cleo")
    on.run("promote", ref, "--to", "canary", "--cite", compared, actor="dai")
    for _ in range(6):
        window(on, ASSET)
    on.run("approve", ref, "--to", "enabled", actor="cleo")
    on.run("promote", ref, "--to", "enabled", actor="dai")


def window(on: Stage, asset: str, **harm: Any) -> None:
    """Fifteen minutes of canary traffic, handed in and judged."""
    state = on.json("canary", "show", asset)
    start = datetime.fromisoformat(state["next_window"])
    on.clock.reach(start + data.WINDOW)
    file = on.lines("evidence/window.jsonl", data.canary_window(start, **harm))
    on.run("canary", "push", asset, file, actor="ben")
    on.run("canary", "tick", asset)


def key(on: Stage, name: str) -> None:
    """Make the ledger's first key."""
    on.run("ledger", "keygen", name)


def checkpoint(on: Stage, name: str) -> None:
    """Sign how far the ledger goes."""
    on.run("ledger", "checkpoint", "--signing-key", name)


STORIES: Final = {"full": full}
