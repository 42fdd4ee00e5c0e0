"""Check a guard-overhead report with the standard library alone.

    python plain_check.py REPORT BARE GUARDED [--budget FRACTION]

Copy this one file to any machine with Python 3.11 and two plain arm files. It shares no code with
Gatemark: it reads the windows, checks the pairing, computes both values, hashes the policy in its
canonical form (RFC 8785) and compares. It does not resample, so a verdict by interval is left to
``gatemark overhead verify``, and it reads no second bare run, time or memory. It lists overrides of
the profile without judging them. It prints one JSON document and exits with 0 if the report is true
and passes, 1 true and fails, 3 true and inconclusive (or judged by an interval, or by the rules of
another version), 4 it disagrees, 2 unreadable input.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

Json: TypeAlias = Any
"""Decoded JSON. A wrong shape raises, and ``main`` reports it."""
Arm: TypeAlias = tuple[dict[str, Json], list[dict[str, Json]]]

PERPLEXITY = ("ppl_causal", "ppl_mlm", "ppl_seq2seq")
RULES = 1
"""The version of the rules that this program checks."""
BUDGETS = {"release": 0.01, "ci": 0.01, "dev": 0.05}
CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
CLOSE = 1e-9
MAX_COUNT = 2**53 - 1
MAX_MEAN_LOSS = 700.0
_PLACE = {"record_type", "window_id", "content_hash"}


class UnreadableError(Exception):
    """Input that cannot be read at all."""


class OtherRulesError(Exception):
    """A report decided by rules that this program does not have."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one report against two arms."""
    parser = argparse.ArgumentParser(prog="plain_check", description=__doc__.split("\n")[0])
    parser.add_argument("report")
    parser.add_argument("bare")
    parser.add_argument("guarded")
    parser.add_argument("--budget", type=float, help="the budget to judge by, not the report's own")
    options = parser.parse_args(arguments)
    try:
        report = _parse_strictly(Path(options.report).read_text(encoding="utf-8"))
        arms = [_read_arm(Path(path)) for path in (options.bare, options.guarded)]
        document = check(report, arms[0], arms[1], options.budget)
    except OtherRulesError as error:
        sys.stderr.write(f"plain_check: {error}\n")
        return CODES["inconclusive"]
    except (UnreadableError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        sys.stderr.write(f"plain_check: {type(error).__name__}: {error}\n")
        return 2
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    return 4 if not document["agrees"] else CODES[str(document["outcome_of_quality"])]


def check(report: Json, bare: Arm, guarded: Arm, budget: float | None = None) -> dict[str, object]:
    """Return every check by name, true or false, and the exit code."""
    stored = report["guard_overhead"]
    settings = report["resolved_policy"]["settings"]
    limit = settings["budget"] if budget is None else budget
    policy_checks = _check_policy(report, limit)
    recorded = settings.get("overhead_rules")
    if policy_checks["policy.digest"] and type(recorded) is int and recorded > RULES:
        raise OtherRulesError(
            f"recorded under overhead rules {recorded}, not decided again: "
            f"this program has rules {RULES}"
        )
    defects = sorted(set(find_pairing_defects(bare, guarded)))
    kind = str(bare[0].get("metric_kind"))
    values = None if defects else _compute_values(kind, bare[1], guarded[1])
    if not defects and values is None:
        defects = ["value.range"]
    has_noise = bool(stored["noise"]["given"] or stored.get("repeat"))
    checks = {
        **policy_checks,
        # Defects of second runs are listed too; this program does not read those files.
        "pairing": bool(stored["errors"]) if defects else has_noise or not stored["errors"],
        "flag.evaluated": stored["evaluated"] is (values is not None),
    }
    outcome = "fail" if settings["on_unmeasured"] == "fail" else "inconclusive"
    if values is not None:
        outcome = _judge_overhead(values[2], bare[1], limit, settings)
        checks.update(_check_values(stored, values, is_ppl=kind in PERPLEXITY))
    verdict = report["verdict"]
    if values is None or settings["mode"] == "point":
        is_held = outcome == "pass"
        # Guards that change nothing are held too, which does not concern the value.
        checks["flag.passed"] = stored["passed"] is False or (is_held and stored["passed"] is True)
        # Other rules may still fail what passed here; none may pass what failed.
        checks["verdict"] = verdict in CODES if is_held else verdict in {outcome, "fail"}
    is_soft = values is None and settings["on_unmeasured"] == "soft_pass" and verdict != "fail"
    checks["flag.guard_overhead_acceptable"] = report["validation"][
        "guard_overhead_acceptable"
    ] is (verdict == "pass" or is_soft)
    agrees = all(checks.values())
    return {
        "agrees": agrees,
        "checks": checks,
        "defects": defects,
        "outcome_of_quality": outcome,
        "overrides": sorted(
            name.split(".")[1] for name in settings if re.fullmatch(r"override\.\w+\.to", name)
        ),
        "exit_code": CODES[outcome] if agrees else 4,
    }


def _check_policy(report: Json, limit: float) -> dict[str, bool]:
    policy, settings = report["resolved_policy"], report["resolved_policy"]["settings"]
    digests = (
        report["policy_digest"],
        report["auto"]["policy_digest"],
        report["policy_provenance"]["policy_digest"],
    )
    expected = settings.get("override.budget.to", BUDGETS.get(settings["profile"]))
    bounds = [rule["bound"] for rule in policy["rules"] if rule["id"] == "overhead.quality"]
    return {
        "policy.digest": set(digests) == {digest_policy(policy)},
        "policy.rules": type(settings.get("overhead_rules")) is int
        and settings["overhead_rules"] == RULES,
        "policy.budget": report["guard_overhead"]["overhead_threshold"]
        == limit
        == settings["budget"]
        == expected,
        "policy.resolved": bounds == [settings["budget"] + settings["tolerance"]],
    }


def _check_values(
    stored: Json, values: tuple[float, float, float], *, is_ppl: bool
) -> dict[str, bool]:
    bare, guarded, overhead = values
    name = "ppl" if is_ppl else "accuracy"
    return {
        "value.bare": _is_close(stored[f"bare_{name}"], bare),
        "value.guarded": _is_close(stored[f"guarded_{name}"], guarded),
        "value.ratio": _is_close(stored["overhead"], overhead)
        and (not is_ppl or _is_close(stored["overhead_ratio"], 1 + overhead)),
    }


def _judge_overhead(
    overhead: float, windows: list[dict[str, Json]], limit: float, settings: Json
) -> str:
    """Judge a measured overhead by the budget; an interval is left to Gatemark."""
    thin = "fail" if settings["on_unmeasured"] == "fail" else "inconclusive"
    is_thin = len(windows) < settings["min_windows"]
    if settings["mode"] != "point":
        return thin
    if overhead > limit + settings["tolerance"]:
        return "fail"
    if "loss" in windows[0]:
        is_thin |= sum(row["tokens"] for row in windows) < settings["min_tokens"]
    if is_thin:
        return thin
    return "inconclusive" if -overhead > settings["improvement_max"] else "pass"


def find_pairing_defects(bare: Arm, guarded: Arm) -> Iterator[str]:
    """Yield the names of the pairing checks that fail."""
    for role, (meta, windows) in (("bare", bare), ("guarded", guarded)):
        if meta.get("arm") != role:
            yield "arm.role"
        guards = meta.get("guards")
        if guards if meta.get("arm") == "bare" else guards == []:
            yield "arm.guards"
        usable = [window for window in windows if _is_usable(str(meta.get("metric_kind")), window)]
        if len(usable) != len(windows):
            yield "arm.unusable_window"
        if len({window["window_id"] for window in usable}) != len(usable):
            yield "arm.duplicate_window"
        elif len({window["content_hash"].lower() for window in usable}) != len(usable):
            yield "arm.copied_window"
        if len(windows) != meta["plan"]["windows"]:
            yield "arm.window_count"
    for check_name, field in (
        ("pair.kind", "metric_kind"),
        ("pair.plan", "plan"),
        ("pair.seeds", "seeds"),
        ("pair.device", "device"),
        ("pair.snapshot", "snapshot_hash"),
    ):
        if bare[0].get(field) != guarded[0].get(field):
            yield check_name
    left, right = (
        [(w.get("window_id"), w.get("content_hash"), w.get("tokens"), w.get("total")) for w in rows]
        for rows in (bare[1], guarded[1])
    )
    if left != right:
        yield "pair.windows"


def digest_policy(policy: Json) -> str:
    """Return the digest of a policy's canonical bytes."""
    return "sha256:" + hashlib.sha256(write_canonical(policy).encode()).hexdigest()


def write_canonical(value: Json) -> str:
    """Return JSON as RFC 8785 writes it."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return (
            "{"
            + ",".join(f"{write_canonical(key)}:{write_canonical(value[key])}" for key in keys)
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(write_canonical, value)) + "]"
    if isinstance(value, float):
        return _write_number(value)
    return json.dumps(value, ensure_ascii=False)


def _write_number(value: float) -> str:
    """Return a double as ECMAScript writes it."""
    if not math.isfinite(value):
        raise UnreadableError(f"{value} has no canonical form")
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    head = "-" if sign else ""
    if 0 < point <= 21:
        whole = text.ljust(point, "0")
        return head + (whole if len(whole) == point else f"{whole[:point]}.{whole[point:]}")
    if -6 < point <= 0:
        return f"{head}0.{'0' * -point}{text}"
    tail = f".{text[1:]}" if len(text) > 1 else ""
    return f"{head}{text[0]}{tail}e{point - 1:+d}"


def _compute_values(
    kind: str, bare: list[dict[str, Json]], guarded: list[dict[str, Json]]
) -> tuple[float, float, float] | None:
    """Return both values and the overhead; None where a loss is too large for a perplexity."""
    if kind in PERPLEXITY:
        total = math.fsum(window["tokens"] for window in bare)
        try:
            means = [
                math.fsum(w["tokens"] * w["loss"] for w in rows) / total for rows in (bare, guarded)
            ]
        except OverflowError:
            return None
        if max(means) > MAX_MEAN_LOSS:
            return None
        return math.exp(means[0]), math.exp(means[1]), math.expm1(means[1] - means[0])
    total = sum(window["total"] for window in bare)
    shares = [sum(w["correct"] for w in rows) / total for rows in (bare, guarded)]
    return shares[0], shares[1], shares[0] - shares[1]


def _is_usable(kind: str, window: dict[str, Json]) -> bool:
    """Whether a line is a valid window of its kind, without other keys."""

    def count(name: str, least: int) -> bool:
        value = window.get(name)
        return type(value) is int and least <= value <= MAX_COUNT

    def text(name: str) -> bool:
        value = window.get(name)
        return isinstance(value, str) and bool(value.strip()) and len(value) <= 512

    if window.get("record_type") != "window" or not (text("window_id") and text("content_hash")):
        return False
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in window["window_id"]):
        return False
    if kind in PERPLEXITY:
        loss: Json = window.get("loss")
        if set(window) != {*_PLACE, "tokens", "loss"} or type(loss) not in (int, float):
            return False
        return 0 <= loss <= sys.float_info.max and count("tokens", 1)
    if set(window) - {"tokens"} != {*_PLACE, "correct", "total"}:
        return False
    if "tokens" in window and not count("tokens", 1):
        return False
    return count("total", 1) and count("correct", 0) and window["correct"] <= window["total"]


def _read_arm(path: Path) -> Arm:
    rows: list[dict[str, Json]] = []
    for line in path.read_text(encoding="utf-8-sig").split("\n"):
        if line.strip():
            try:
                row = _parse_strictly(line)
            except (UnreadableError, RecursionError):
                row = None
            rows.append(row if isinstance(row, dict) else {})
    if not rows or rows[0].get("record_type") != "arm_meta":
        raise UnreadableError(f"{path.name} does not begin with an arm_meta line")
    return rows[0], rows[1:]


def _parse_strictly(text: str) -> Json:
    """Parse JSON without NaN and without repeated keys."""

    def refuse(name: str) -> NoReturn:
        raise UnreadableError(f"{name} is not a JSON number")

    def once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise UnreadableError("a key appears more than once")
        return found

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except ValueError as error:
        raise UnreadableError(f"not JSON: {error}") from error


def _is_close(stored: object, found: float) -> bool:
    if isinstance(stored, bool) or not isinstance(stored, int | float):
        return False
    return math.isclose(stored, found, rel_tol=CLOSE, abs_tol=1e-12)


if __name__ == "__main__":
    sys.exit(main())
