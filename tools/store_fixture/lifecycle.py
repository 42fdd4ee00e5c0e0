"""Versions that people take up and down: every stage, gate, vote, window and fall."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final

from store_fixture import data
from store_fixture.packs import examine
from store_fixture.stage import Stage

SORTER: Final = "mail-sorter"
NOTE: Final = "the cited numbers hold"
"""What a voter says."""
SCHEMA: Final = {
    "type": "object",
    "properties": {"price": {"type": "number"}, "place": {"type": "string"}},
    "required": ["price"],
}


def first_version(on: Stage) -> None:
    """The first version goes from draft to enabled, under the default release policy."""
    first = examine(on, "v1")
    add(on, "1.0.0", first, "--kind", "classifier", "--pin", "tool.labels=labels-1")
    on.run("asset", "pack", SORTER, "packs/v1.yaml", actor="dai")
    to_shadow(on, "1.0.0", first)
    on.refused("promote", f"{SORTER}@1.0.0", "--to", "enabled", actor="dai")
    on.run("approve", f"{SORTER}@1.0.0", "--to", "enabled", "--note", NOTE, actor="cleo")
    on.run("promote", f"{SORTER}@1.0.0", "--to", "enabled", actor="dai")


def rejected_version(on: Stage) -> None:
    """A version that fails its exam and is retired."""
    ref = f"{SORTER}@0.9.0"
    failed = examine(on, "careless", code=1)
    add(on, "0.9.0", failed)
    on.run("promote", ref, "--to", "evaluating", actor="ben")
    on.run("promote", ref, "--to", "rejected", "--cite", failed, actor="ben")
    on.run("promote", ref, "--to", "retired", "--note", "nobody will mend it", actor="dai")


def second_version(on: Stage) -> None:
    """Turned down once, then through every canary share to enabled; the watch after it ends."""
    ref = f"{SORTER}@1.1.0"
    second = examine(on, "v2")
    add(on, "1.1.0", second)
    to_shadow(on, "1.1.0", second)
    measure_shadow(on, ref)
    compared = examine(on, "v2")
    on.run("approve", ref, "--to", "canary", "--decision", "abstain", "--note", NOTE, actor="eve")
    on.run(
        *("approve", ref, "--to", "canary", "--cite", compared, "--decision", "reject"),
        *("--note", "wait for the night shift"),
        actor="cleo",
    )
    on.refused("promote", ref, "--to", "canary", "--cite", compared, actor="dai")
    on.run("approve", ref, "--to", "canary", "--cite", compared, "--note", NOTE, actor="cleo")
    on.run("promote", ref, "--to", "canary", "--cite", compared, actor="dai")
    for _ in range(6):
        window(on)
    on.run("approve", ref, "--to", "enabled", "--note", NOTE, actor="cleo")
    on.run("promote", ref, "--to", "enabled", actor="dai")
    for _ in range(2):
        window(on)
    on.clock.add(hours=25)
    on.run("canary", "tick", SORTER)


def third_version(on: Stage) -> None:
    """A canary that holds, warns, is resumed, and breaks a promise: it is rolled back by itself."""
    to_canary(on, "1.2.0", "v3")
    window(on, keys=20)
    window(on, latency=130.5)
    on.run("asset", "resume", f"{SORTER}@1.2.0", "--note", "a load test", actor="dai")
    window(on, violations=1)


def broken_glass(on: Stage) -> None:
    """Enabled at once because of an incident, looked at by a second person, left by a person."""
    ref = f"{SORTER}@1.3.0"
    result = examine(on, "v4")
    add(on, "1.3.0", result)
    to_shadow(on, "1.3.0", result)
    on.run(
        *("promote", ref, "--to", "enabled", "--break-glass", "incident-12"),
        *("--note", "1.1.0 loses refunds since noon"),
        actor="dai",
    )
    on.run("approve", ref, "--confirm-break-glass", "--note", "was right", actor="cleo")
    start = on.clock.now.replace(microsecond=0)
    on.clock.add(minutes=6)
    on.run(
        *("asset", "service", SORTER, "--good", 9_990, "--total", 10_000),
        *("--start", data.moment(start), "--end", data.moment(on.clock.now)),
        actor="dai",
    )
    on.run("rollback", SORTER, "--note", "refunds are back", actor="cleo")


def forgotten_glass(on: Stage) -> None:
    """A broken glass that nobody looks at in time is taken back."""
    ref = f"{SORTER}@1.3.1"
    result = examine(on, "v7")
    add(on, "1.3.1", result)
    to_shadow(on, "1.3.1", result)
    on.run(
        *("promote", ref, "--to", "enabled", "--break-glass", "incident-13", "--note", "again"),
        actor="dai",
    )
    on.clock.add(hours=26)
    on.run("canary", "tick", SORTER)


def adopt_policy(on: Stage) -> None:
    """A release policy of one's own takes effect; approvals from before are void.

    It watches a metric whose numbers are beyond 2**53, where JSON writers differ.
    """
    policy = on.json("policy", "show")["policy"]
    policy |= {"name": "own-rules", "watch_hours": 2, "shadow_sample_rate": 0.25}
    policy["canary"] |= {"clean_windows": 1, "min_samples": 40}
    policy["canary"]["metrics"][data.LARGE] = {"harm": "up", "tolerance": 0.5}
    policy["approvals"] |= {"expire_hours": 48}
    policy["assets"] = [{"names": ["help-desk"], "set": {"shadow_min_hours": 1}}]
    adopt(on, policy, "one clean window is enough")


def adopt_rank_policy(on: Stage) -> None:
    """Another policy, whose judge compares the values of a window by ranks."""
    policy = on.json("policy", "show")["policy"]
    policy |= {"name": "rank-rules"}
    del policy["canary"]["metrics"][data.LARGE]
    policy["canary"] |= {"judge": "mann_whitney"}
    adopt(on, policy, "ranks, because of the outliers")


def adopt(on: Stage, policy: dict[str, Any], note: str) -> None:
    """Put a policy into force."""
    file = on.write(f"packs/{policy['name']}.yaml", json.dumps(policy))
    on.run("policy", "check", file)
    on.run("policy", "adopt", file, "--note", note)


def waived_version(on: Stage) -> None:
    """The replay gate stands against a version and is overridden; later a person demotes it."""
    ref = f"{SORTER}@1.4.0"
    on.write("packs/courier.yaml", data.pack("courier", baseline="v2"))
    waivers = ("--waivers", "packs/replay-waivers.yaml")
    result = examine(on, "courier", *waivers)
    add(on, "1.4.0", result)
    on.run("promote", ref, "--to", "evaluating", actor="ben")
    on.refused("promote", ref, "--to", "eligible", "--cite", result, actor="ben")
    on.run(
        *("asset", "waive", ref, "--gate", "replay", "--hours", 48),
        *("--note", "traffic shifted on purpose"),
        actor="dai",
    )
    on.run("promote", ref, "--to", "eligible", "--cite", result, actor="ben")
    on.run("promote", ref, "--to", "shadow", actor="dai")
    measure_shadow(on, ref)
    compared = examine(on, "courier", *waivers)
    on.run("approve", ref, "--to", "canary", "--cite", compared, "--note", NOTE, actor="cleo")
    on.run("promote", ref, "--to", "canary", "--cite", compared, actor="dai")
    on.run("asset", "pause", ref, "--reason", "freeze", "--note", "quarter end", actor="dai")
    on.run("asset", "resume", ref, "--note", "the quarter is over", actor="dai")
    for _ in range(3):
        window(on, is_large=True)
    on.run("approve", ref, "--to", "enabled", "--note", NOTE, actor="cleo")
    on.run("promote", ref, "--to", "enabled", actor="dai")
    on.run("demote", SORTER, "--reason", "wrong language since noon", "--to", "shadow", actor="dai")
    on.run("demote", ref, "--reason", "it will not be mended", actor="dai")


def open_canary(on: Stage) -> None:
    """A version with more rights, signed by security, whose canary still runs at the end."""
    ref = f"{SORTER}@1.5.0"
    on.write("packs/v5.yaml", data.pack("v5", baseline="v2"))
    result = examine(on, "v5")
    add(on, "1.5.0", result, "--scope-change", "--pin", "tool.mailer=m-1")
    to_shadow(on, "1.5.0", result)
    measure_shadow(on, ref)
    compared = examine(on, "v5")
    on.run("approve", ref, "--to", "canary", "--cite", compared, "--note", NOTE, actor="cleo")
    on.refused("promote", ref, "--to", "canary", "--cite", compared, actor="dai")
    on.run("approve", ref, "--to", "canary", "--cite", compared, "--note", NOTE, actor="eve")
    on.run("promote", ref, "--to", "canary", "--cite", compared, actor="dai")
    window(on, values=50)


def other_assets(on: Stage) -> None:
    """Drafts of the other kinds, with files, schemas, risk, and another environment."""
    on.write("packs/prompt.txt", "Sort the mail. Be kind.\n")
    on.run(
        *("asset", "add", "answer-prompt@1.0.0", "--kind", "prompt", "--file", "packs/prompt.txt"),
        *("--pin", "model=m-7", "--pin", "retrieval=r-3", "--note", data.FOREIGN),
        actor="ben",
    )
    on.run(
        *("asset", "add", "answer-model@1.0.0", "--kind", "model", "--risk", "high"),
        *("--digest", "sha256:" + "ab" * 32),
        actor="ben",
    )
    for version, extra in (("1.0.0", {}), ("1.1.0", {"note": {"type": "string"}}), ("1.1.1", None)):
        schema = json.loads(json.dumps(SCHEMA))
        if extra is None:
            schema["required"].append("place")
        else:
            schema["properties"] |= extra
        file = on.write(f"packs/schema-{version}.json", json.dumps(schema))
        words = ("--kind", "ontology") if version == "1.0.0" else ()
        on.run(
            *("asset", "add", f"price-list@{version}", *words, "--schema", file, "--file", file),
            actor="ben",
        )
    for kind in ("tool", "agent", "extractor", "rule_pack"):
        name = f"some-{kind.replace('_', '-')}"
        on.run(
            *("asset", "add", f"{name}@0.1.0", "--kind", kind, "--digest", "sha256:" + "cd" * 32),
            actor="ben",
        )
    on.run(
        *("promote", "some-agent@0.1.0", "--to", "evaluating", "--environment", "staging"),
        actor="ben",
    )


def add(on: Stage, version: str, result: str, *words: object) -> None:
    """Draft a version of the sorter from the candidate of a result."""
    pin = ("--pin", f"model=sorter-{version}")
    ref = f"{SORTER}@{version}"
    on.run("asset", "add", ref, "--from", result, *pin, *words, actor="ben")


def to_shadow(on: Stage, version: str, result: str, asset: str = SORTER) -> None:
    """From draft to shadow on one result."""
    ref = f"{asset}@{version}"
    on.run("promote", ref, "--to", "evaluating", actor="ben")
    on.run("promote", ref, "--to", "eligible", "--cite", result, actor="ben")
    on.run("promote", ref, "--to", "shadow", actor="dai")


def measure_shadow(on: Stage, ref: str) -> None:
    """A day in shadow, with answers to the same inputs as the live version."""
    start = on.clock.now.replace(microsecond=0) + timedelta(minutes=1)
    on.clock.reach(start + timedelta(hours=25))
    span = {"start": data.moment(start), "end": data.moment(start + timedelta(hours=24))}
    counts = {"n": 80, "agreed": 77, "errors": {"candidate": 1, "live": 1}}
    means = {"latency_ms": {"candidate": 101.5, "live": 100.0}}
    file = on.lines("evidence/shadow.jsonl", [span | counts | means])
    on.run("shadow", "push", ref, file, actor="ben")


def to_canary(on: Stage, version: str, candidate: str, live: str = "v2") -> None:
    """From nothing to the first canary share, compared with the sorter that is live."""
    ref = f"{SORTER}@{version}"
    on.write(f"packs/{candidate}.yaml", data.pack(candidate, baseline=live))
    result = examine(on, candidate)
    add(on, version, result)
    to_shadow(on, version, result)
    measure_shadow(on, ref)
    compared = examine(on, candidate)
    on.run("approve", ref, "--to", "canary", "--cite", compared, "--note", NOTE, actor="cleo")
    on.run("promote", ref, "--to", "canary", "--cite", compared, actor="dai")


def window(on: Stage, asset: str = SORTER, **harm: Any) -> None:
    """Fifteen minutes of canary traffic, handed in and judged."""
    state = on.json("canary", "show", asset)
    start = datetime.fromisoformat(state["next_window"])
    # Late samples are waited for.
    on.clock.reach(start + 2 * data.WINDOW)
    file = on.lines("evidence/window.jsonl", data.canary_window(start, **harm))
    on.run("canary", "push", asset, file, actor="ben")
    on.run("canary", "tick", asset)
