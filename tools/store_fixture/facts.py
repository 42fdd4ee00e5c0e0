"""What a reader must find in a store, gathered by the commands of the build that made it."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from store_fixture import data
from store_fixture.stage import Stage

EXPORT: Final = "export"


def gather(on: Stage) -> dict[str, Any]:
    """Everything that the manifest says about a store."""
    verified = on.json("ledger", "verify")
    events = on.json("ledger", "log", "--limit", 1_000_000)
    at = data.moment(on.clock.now)
    facts: dict[str, Any] = {
        **on.notes,
        "origin": verified["origin"],
        "head": verified["head"],
        "root": verified["root"],
        "event_kinds": dict(sorted(Counter(event["kind"] for event in events).items())),
        "erased_payloads": [event["seq"] for event in events if event["payload"] is None],
        "counts": {
            name: verified[name]
            for name in ("events", "results", "blobs", "decisions", "checkpoints")
        },
        "results": [_result(on, one["id"]) for one in on.json("list", "--limit", 1_000_000)],
        "assets": [_asset(on, one["asset"]) for one in on.json("asset", "list")],
        "roles": on.json("role", "list"),
        "release_policy": on.json("policy", "show"),
        "reviews": [
            {name: told[name] for name in ("review", "state", "pairs", "votes", "skips")}
            for told in (on.json("review", "status", name) for name in on.notes["reviews"])
        ],
        "label_sets": [
            {name: told[name] for name in ("labels", "items", "marks", "accepted")}
            for told in (
                on.json("review", "labels", "status", name) for name in on.notes["label_sets"]
            )
        ],
        "drift": {"at": at, "levels": on.json("drift", "status", "--now", at)["levels"]},
        "verify": _codes(on),
    }
    if (on.folder / EXPORT).is_dir():
        facts["verify_export"] = _codes(on, EXPORT)
    return facts


def _result(on: Stage, result: str) -> dict[str, Any]:
    """A result in short: its verdict, and how much of everything it holds."""
    shown = on.json("show", result)
    short = {name: shown[name] for name in ("id", "title", "verdict")}
    many = ("findings", "measurements", "figures", "blobs", "waivers", "blockers", "caveats")
    return short | {"counts": {name: len(shown[name]) for name in many}}


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
    """How each way to verify ends; ways with keys are left out where there is none.

    ``keys`` trusts every public key that the story made, ``first_key`` the oldest alone.
    """
    files = [f"{key}.pub" for key in on.notes["keys"]]
    ways: dict[str, list[str]] = {"plain": [], "rescore": ["--rescore"]}
    if files:
        ways["first_key"] = ["--key", files[0]]
        ways["keys"] = [word for file in files for word in ("--key", file)]
        ways["keys_rescore"] = [*ways["keys"], "--rescore"]
    return {name: on.code("ledger", "verify", *what, *words) for name, words in ways.items()}
