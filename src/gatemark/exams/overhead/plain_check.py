"""A second opinion on a guard-overhead report, in the standard library alone.

    python plain_check.py REPORT BARE GUARDED [--budget FRACTION]

Copy this one file to any machine with Python 3.11 and two plain arm files. It shares no code with
Gatemark: it reads the windows, proves the pairing, computes both values, hashes the policy in its
canonical form (RFC 8785) and compares. It does not resample, so a verdict by interval is left to
``gatemark overhead verify``; nor does it read a second bare run, time or memory. Overrides of the
profile are listed, not judged. Prints one JSON document; exit 0 true and passed, 1 true and failed,
3 true and inconclusive (or judged by an interval), 4 something disagrees, 2 unreadable.
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
from typing import Any, NoReturn

PERPLEXITY = ("ppl_causal", "ppl_mlm", "ppl_seq2seq")
BUDGETS = {"release": 0.01, "ci": 0.01, "dev": 0.05}
CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
CLOSE = 1e-9
MAX_COUNT = 2**53 - 1
MAX_MEAN_LOSS = 700.0
_PLACE = {"record_type", "window_id", "content_hash"}


class UnreadableError(Exception):
    """Input that cannot be read at all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one report against two arms."""
    parser = argparse.ArgumentParser(prog="plain_check", description=__doc__.split("\n")[0])
    parser.add_argument("report")
    parser.add_argument("bare")
    parser.add_argument("guarded")
    parser.add_argument("--budget", type=float, help="the budget to judge by, not the report's own")
    options = parser.parse_args(arguments)
    try:
        report = _strict(Path(options.report).read_text(encoding="utf-8"))
        arms = [_arm(Path(path)) for path in (options.bare, options.guarded)]
        document = check(report, arms[0], arms[1], options.budget)
    except (UnreadableError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        sys.stderr.write(f"plain_check: {type(error).__name__}: {error}\n")
        return 2
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    return int(document["exit_code"])


def check(report: Any, bare: Any, guarded: Any, budget: float | None = None) -> dict[str, Any]:
    """Every check by name, each true or false, and how it ends."""
    stored = report["guard_overhead"]
    settings = report["resolved_policy"]["settings"]
    limit = settings["budget"] if budget is None else budget
    defects = sorted(set(pairing_defects(bare, guarded)))
    kind = bare[0].get("metric_kind")
    values = None if defects else _values(kind, bare[1], guarded[1])
    if not defects and values is None:
        defects = ["value.range"]
    has_noise = bool(stored["noise"]["given"])
    checks = {
        **_policy_checks(report, limit),
        # Defects of a second bare run are listed too, and this program does not read that file.
        "pairing": bool(stored["errors"]) if defects else has_noise or not stored["errors"],
        "flag.evaluated": stored["evaluated"] is (values is not None),
    }
    outcome = "fail" if settings["on_unmeasured"] == "fail" else "inconclusive"
    if values is not None:
        outcome = _outcome(values[2], len(bare[1]), limit, settings)
        checks.update(_value_checks(stored, values, is_ppl=kind in PERPLEXITY))
    verdict = report["verdict"]
    if values is None or settings["mode"] == "point":
        is_held = outcome == "pass"
        checks["flag.passed"] = stored["passed"] is is_held or (
            is_held and has_noise and stored["passed"] is False
        )
        # Other rules may still fail what passed here; none may pass what did not.
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


def _policy_checks(report: Any, limit: float) -> dict[str, bool]:
    policy, settings = report["resolved_policy"], report["resolved_policy"]["settings"]
    digests = (
        report["policy_digest"],
        report["auto"]["policy_digest"],
        report["policy_provenance"]["policy_digest"],
    )
    expected = settings.get("override.budget.to", BUDGETS.get(settings["profile"]))
    bounds = [rule["bound"] for rule in policy["rules"] if rule["id"] == "overhead.quality"]
    return {
        "policy.digest": set(digests) == {policy_digest(policy)},
        "policy.budget": report["guard_overhead"]["overhead_threshold"]
        == limit
        == settings["budget"]
        == expected,
        "policy.resolved": bounds == [settings["budget"] + settings["tolerance"]],
    }


def _value_checks(stored: Any, values: tuple[float, float, float], *, is_ppl: bool) -> Any:
    bare, guarded, overhead = values
    name = "ppl" if is_ppl else "accuracy"
    return {
        "value.bare": _close(stored[f"bare_{name}"], bare),
        "value.guarded": _close(stored[f"guarded_{name}"], guarded),
        "value.ratio": _close(stored["overhead"], overhead)
        and (not is_ppl or _close(stored["overhead_ratio"], 1 + overhead)),
    }


def _outcome(overhead: float, windows: int, limit: float, settings: Any) -> str:
    """What the budget says of a measured overhead; an interval is left to the other program."""
    if settings["mode"] != "point" or windows < settings["min_windows"]:
        return "fail" if settings["on_unmeasured"] == "fail" else "inconclusive"
    if overhead > limit + settings["tolerance"]:
        return "fail"
    return "inconclusive" if -overhead > settings["improvement_max"] else "pass"


def pairing_defects(bare: Any, guarded: Any) -> Iterator[str]:
    """The names of the pairing checks that fail."""
    for role, (meta, windows) in (("bare", bare), ("guarded", guarded)):
        if meta.get("arm") != role:
            yield "arm.role"
        guards = meta.get("guards")
        if guards if meta.get("arm") == "bare" else guards == []:
            yield "arm.guards"
        usable = [window for window in windows if _usable(meta.get("metric_kind"), window)]
        if len(usable) != len(windows):
            yield "arm.unusable_window"
        if len({window["window_id"] for window in usable}) != len(usable):
            yield "arm.duplicate_window"
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


def policy_digest(policy: Any) -> str:
    """The digest of a policy's canonical bytes."""
    return "sha256:" + hashlib.sha256(canonical(policy).encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON as RFC 8785 writes it."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """A double as ECMAScript writes it: shortest digits, exponents only when far from 1."""
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


def _values(kind: Any, bare: Any, guarded: Any) -> tuple[float, float, float] | None:
    """Both values and the overhead; none where a loss is too large to have a perplexity."""
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


def _usable(kind: Any, window: dict[str, Any]) -> bool:
    """Whether a line is a whole window of its kind, and nothing besides."""

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
        loss: Any = window.get("loss")
        if set(window) != {*_PLACE, "tokens", "loss"} or type(loss) not in (int, float):
            return False
        return 0 < loss <= sys.float_info.max and count("tokens", 1)
    if set(window) - {"tokens"} != {*_PLACE, "correct", "total"}:
        return False
    if "tokens" in window and not count("tokens", 1):
        return False
    return count("total", 1) and count("correct", 0) and window["correct"] <= window["total"]


def _arm(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8-sig").split("\n"):
        if line.strip():
            try:
                row = _strict(line)
            except (UnreadableError, RecursionError):
                row = None
            rows.append(row if isinstance(row, dict) else {})
    if not rows or rows[0].get("record_type") != "arm_meta":
        raise UnreadableError(f"{path.name} does not begin with an arm_meta line")
    return rows[0], rows[1:]


def _strict(text: str) -> Any:
    """JSON without NaN and without a key that comes twice."""

    def refuse(name: str) -> NoReturn:
        raise UnreadableError(f"{name} is not a JSON number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise UnreadableError("a key appears more than once")
        return found

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except ValueError as error:
        raise UnreadableError(f"not JSON: {error}") from error


def _close(stored: Any, found: float) -> bool:
    return type(stored) in (int, float) and math.isclose(
        stored, found, rel_tol=CLOSE, abs_tol=1e-12
    )


if __name__ == "__main__":
    sys.exit(main())
