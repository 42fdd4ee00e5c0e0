"""A second opinion on a guard-overhead report, in the standard library alone.

    python plain_check.py REPORT BARE GUARDED [--budget FRACTION]

Copy this one file to any machine with Python 3.11 and two plain arm files. It shares no code with
Gatemark: it reads the windows, proves the pairing, computes both values, hashes the policy in its
canonical form (RFC 8785) and compares. It does not resample, so a verdict by interval is left to
``gatemark overhead verify``. Prints one JSON document; exit 0 true and passed, 1 true and failed,
3 true and inconclusive (or judged by an interval), 4 something disagrees, 2 unreadable.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

PERPLEXITY = ("ppl_causal", "ppl_mlm", "ppl_seq2seq")
CLOSE = 1e-9


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
    except (UnreadableError, OSError, UnicodeDecodeError, KeyError, TypeError) as error:
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
    checks = {
        "policy.digest": all(
            name == policy_digest(report["resolved_policy"])
            for name in (
                report["policy_digest"],
                report["auto"]["policy_digest"],
                report["policy_provenance"]["policy_digest"],
            )
        ),
        "policy.budget": stored["overhead_threshold"] == limit == settings["budget"],
        "pairing": bool(defects) == bool(stored["errors"]),
        "flag.evaluated": stored["evaluated"] is (values is not None),
    }
    outcome = "inconclusive"
    if values is not None:
        bare_value, guarded_value, overhead = values
        names = ("ppl", "ppl") if kind in PERPLEXITY else ("accuracy", "accuracy")
        checks["value.bare"] = _close(stored[f"bare_{names[0]}"], bare_value)
        checks["value.guarded"] = _close(stored[f"guarded_{names[1]}"], guarded_value)
        checks["value.ratio"] = _close(stored["overhead"], overhead) and (
            kind not in PERPLEXITY or _close(stored["overhead_ratio"], 1 + overhead)
        )
        if settings["mode"] == "point":
            outcome = "pass" if overhead <= limit + settings["tolerance"] else "fail"
            checks["flag.passed"] = stored["passed"] is (outcome == "pass")
            if -overhead > settings["improvement_max"] and outcome == "pass":
                outcome = "inconclusive"
    acceptable = report["validation"]["guard_overhead_acceptable"]
    if outcome == "fail" or (values is None and settings["on_unmeasured"] != "soft_pass"):
        checks["flag.guard_overhead_acceptable"] = acceptable is False
    if outcome == "fail":
        checks["verdict"] = report["verdict"] == "fail"
    if values is None:
        checks["verdict"] = report["verdict"] != "pass"
    agrees = all(checks.values())
    codes = {"pass": 0, "fail": 1, "inconclusive": 3}
    return {
        "agrees": agrees,
        "checks": checks,
        "defects": defects,
        "outcome_of_quality": outcome,
        "exit_code": codes[outcome] if agrees else 4,
    }


def pairing_defects(bare: Any, guarded: Any) -> Iterator[str]:
    """The names of the pairing checks that fail."""
    for role, (meta, windows) in (("bare", bare), ("guarded", guarded)):
        if meta.get("arm") != role:
            yield "arm.role"
        if role == "bare" and meta.get("guards"):
            yield "arm.guards"
        ids = [window.get("window_id") for window in windows]
        if len(set(ids)) != len(ids):
            yield "arm.duplicate_window"
        if len(windows) != meta.get("plan", {}).get("windows"):
            yield "arm.window_count"
        if not all(_usable(meta.get("metric_kind"), window) for window in windows):
            yield "arm.unusable_window"
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


def _values(kind: Any, bare: Any, guarded: Any) -> tuple[float, float, float]:
    if kind in PERPLEXITY:
        total = math.fsum(window["tokens"] for window in bare)
        means = [
            math.fsum(w["tokens"] * w["loss"] for w in rows) / total for rows in (bare, guarded)
        ]
        return math.exp(means[0]), math.exp(means[1]), math.exp(means[1] - means[0]) - 1
    total = sum(window["total"] for window in bare)
    shares = [sum(w["correct"] for w in rows) / total for rows in (bare, guarded)]
    return shares[0], shares[1], shares[0] - shares[1]


def _usable(kind: Any, window: Any) -> bool:
    def count(name: str, least: int) -> bool:
        value = window.get(name)
        return type(value) is int and value >= least

    if window.get("record_type") != "window":
        return False
    if kind in PERPLEXITY:
        loss = window.get("loss")
        finite = type(loss) in (int, float) and math.isfinite(loss) and loss > 0
        return finite and count("tokens", 1)
    return count("total", 1) and count("correct", 0) and window["correct"] <= window["total"]


def _arm(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8-sig").splitlines():
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            rows.append(row if isinstance(row, dict) else {})
    if not rows or rows[0].get("record_type") != "arm_meta":
        raise UnreadableError(f"{path.name} does not begin with an arm_meta line")
    return rows[0], rows[1:]


def _strict(text: str) -> Any:
    def refuse(name: str) -> NoReturn:
        raise UnreadableError(f"{name} is not a JSON number")

    try:
        return json.loads(text, parse_constant=refuse)
    except ValueError as error:
        raise UnreadableError(f"the report is not JSON: {error}") from error


def _close(stored: Any, found: float) -> bool:
    return type(stored) in (int, float) and math.isclose(
        stored, found, rel_tol=CLOSE, abs_tol=1e-12
    )


if __name__ == "__main__":
    sys.exit(main())
