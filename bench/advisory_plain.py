"""Advisory scoring in the plain way: json, jsonschema, dicts for counts, numpy for percentiles.

``python -m bench.advisory_plain FILE [RECORDS]`` prints its counts as JSON. It does not digest the
file, look for repeated ids or keys, or read texts for private content.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from itertools import islice
from typing import Any

import jsonschema
import numpy as np

from gatemark.packs.documents import make_json_schema
from gatemark.plugins.advisory.confidence_buckets import choose_bucket
from gatemark.plugins.advisory.record import ERROR_CATEGORIES, SCHEMA_NAME

NO_OP = frozenset(("suppress", "no_action", "log", "skip_private_root"))
DEFERRED = frozenset(("needs_human", "unknown"))
UNSURE = frozenset(("very_low", "low", "unknown"))
UNMEASURED = frozenset(("health_only", "offline_fixture", "unavailable"))
RANK = {"none": 0, "info": 1, "low": 2, "medium": 3, "high": 4, "critical": 5}


def is_sound(record: dict[str, Any]) -> bool:
    """The rules across fields, as a validator's user would write them."""
    confidence, reference = record["confidence"], record["human_or_atlas_decision"]
    outcome, proof, fallback = record["outcome"], record["npu_proof"], record["fallback"]
    if proof["proof_mode"] in UNMEASURED:
        proof_fits = proof["proof_ok"] is None
    else:
        proof_fits = not proof["proof_ok"] or bool(
            proof["inference_ran"] and proof["busy_delta_us"]
        )
    return (
        proof_fits
        and confidence["bucket"] == choose_bucket(confidence["score"])
        and (reference["source"] == "missing") == (reference["label"] is None)
        and (outcome["error_type"] not in ERROR_CATEGORIES or outcome["comparison"] == "disagree")
        and fallback["occurred"] == (fallback["kind"] is not None)
    )


def category(record: dict[str, Any]) -> str:
    """One category per record, in the order that Gatemark documents."""
    advice, reference = record["recommendation"], record["human_or_atlas_decision"]
    if record["source"]["kind"] == "service_health_probe":
        return "not_applicable"
    if reference["source"] in ("missing", "atlas_shadow"):
        return "missing_reference"
    label, wanted = advice["label"], reference["label"]
    if record["confidence"]["bucket"] in UNSURE or label in DEFERRED:
        return "uncertain"
    if label != wanted:
        if wanted in DEFERRED or (label in NO_OP) == (wanted in NO_OP):
            return "disagree"
        return "false_negative" if label in NO_OP else "false_positive"
    apart = RANK[advice["severity"]] - RANK[reference["severity"]]
    if abs(apart) <= 1:
        return "agree"
    return "severity_overcall" if apart > 0 else "severity_undercall"


class Score:
    """Counts by lane and bucket, and every time."""

    def __init__(self) -> None:
        self.counts: dict[Any, Counter[str]] = defaultdict(Counter)
        self.times: dict[Any, list[float]] = defaultdict(list)

    def add(self, record: dict[str, Any]) -> None:
        """Count one record."""
        bucket = record["confidence"]["bucket"]
        lane = (record["input_class"], record["service"]["name"])
        flags, privacy = record["authority_flags"], record["privacy"]
        fallback, proof = record["fallback"], record["npu_proof"]["proof_ok"]
        names = ["records", category(record), record["recommendation"]["label"], bucket]
        if any(flags[name] is not name.startswith(("adv", "req")) for name in flags):
            names.append("authority")
        if record["actual_action"]["performed"]:
            names.append("side_effect")
        if privacy["payload_logged"] or privacy["contains_private_payload"]:
            names.append("privacy")
        if fallback["occurred"]:
            names += [fallback["kind"], "expected" if fallback["expected"] else "unexpected"]
        names.append("proof_ok" if proof else "proof_unknown" if proof is None else "proof_missing")
        if record["latency"]["timeout"]:
            names.append("timeout")
        for group in ("all", lane, bucket):
            self.counts[group].update(names)
        if record["latency"]["total_ms"] is not None:
            self.times[lane].append(record["latency"]["total_ms"])

    def print(self) -> None:
        """What a dashboard would want."""
        percentiles = {
            "/".join(lane): np.quantile(values, [0.5, 0.95], method="inverted_cdf").tolist()
            for lane, values in self.times.items()
        }
        groups = {str(group): counts for group, counts in self.counts.items()}
        json.dump({"groups": groups, "percentiles": percentiles}, sys.stdout)


def main(path: str, limit: int | None) -> None:
    """Score a file, or its beginning."""
    score = Score()
    validator = jsonschema.Draft202012Validator(make_json_schema(SCHEMA_NAME))
    with open(path, "rb") as stream:  # noqa: PTH123
        for line in islice(stream, limit):
            record = json.loads(line)
            if next(validator.iter_errors(record), None) is not None or not is_sound(record):
                raise SystemExit("a bad record")
            score.add(record)
    score.print()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
