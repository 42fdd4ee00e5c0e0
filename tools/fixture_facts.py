"""What a reader must find in a store, gathered by the commands of the build that made it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from fixture_stage import Stage

VERIFY: Final = {
    "plain": (),
    "rescore": ("--rescore",),
    "key": ("--key", "{key}"),
    "key_rescore": ("--rescore", "--key", "{key}"),
}
"""The ways to verify a store, by the name that the manifest gives them."""

EXPORT: Final = "export"
ANY: Final = (0, 1, 2, 3, 4)


def gather(on: Stage) -> dict[str, Any]:
    """Everything that the manifest says about a store."""
    verified = on.json("ledger", "verify", codes=(0, 3))
    events = on.json("ledger", "log", "--limit", 1_000_000)
    results = on.json("list", "--limit", 1_000_000)
    facts: dict[str, Any] = {
        "origin": verified["origin"],
        "head": verified["head"],
        "root": verified["root"],
        "event_kinds": dict(sorted(Counter(event["kind"] for event in events).items())),
        "erased_payloads": [event["seq"] for event in events if event["payload"] is None],
        "counts": {
            name: verified[name]
            for name in ("events", "results", "blobs", "decisions", "checkpoints")
        },
        "results": [{name: one[name] for name in ("id", "title", "verdict")} for one in results],
        "assets": [_asset(on, one["asset"]) for one in on.json("asset", "list")],
        "roles": on.json("role", "list"),
        "release_policy": on.json("policy", "show"),
        "verify": _codes(on),
        **on.notes,
    }
    if (on.folder / EXPORT).is_dir():
        facts["verify_export"] = _codes(on, EXPORT)
    return facts


def _asset(on: Stage, name: str) -> dict[str, Any]:
    """The stages of an asset's versions, and what is live."""
    shown = on.json("asset", "show", name)
    return {
        "name": name,
        "kind": shown["kind"],
        "enabled": shown["enabled"],
        "stages": {one["version"]: one["stage"] for one in shown["versions"]},
    }


def _codes(on: Stage, *what: str) -> dict[str, int]:
    """How each way to verify ends; ways that need a key are left out where there is none."""
    keys = sorted(path.name for path in on.folder.glob("*.pub"))
    found: dict[str, int] = {}
    for name, words in VERIFY.items():
        if name.startswith("key") and not keys:
            continue
        filled = [word.format(key=Path(keys[0]).name if keys else "") for word in words]
        found[name] = on.code("ledger", "verify", *what, *filled)
    return found
