"""Invented advisory decisions of about two kilobytes each.

Three kinds: ``alike`` records differ in little more than their ids, ``plain`` ones come from small
sets of codes, and ``diverse`` ones are as in life: ids, times, hashes, latencies, reasons,
references and file names that never come again, over hundreds of runs.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from gatemark.plugins.advisory.category import CategoryKey, categorize_signal, state_outcome
from gatemark.plugins.advisory.confidence_buckets import choose_bucket
from gatemark.plugins.advisory.record_examples import AGREEING

CLASSES = (
    "context_gate",
    "cron_n8n_event",
    "batch_doc_triage",
    "voice_audio",
    "kanban_hygiene",
    "advisory_gateway_envelope",
)
SERVICES = (
    "openvino_context_gate",
    "cron_n8n_advisory",
    "npu_batch_triage",
    "npu_voice_audio_pipeline",
    "kanban_hygiene_advisory",
    "openvino_advisory_gateway",
)
LABELS = {
    "suppress": ("none", "info"),
    "no_action": ("none", "info"),
    "log": ("info", "low"),
    "escalate": ("high", "critical"),
    "retrieve_more_context": ("low", "medium"),
    "summarize": ("low", "medium"),
}
_TEMPLATE = json.dumps(AGREEING)


def decision(draw: random.Random, number: int) -> dict[str, Any]:
    """One sound record; about one in twenty is wrong, one in ten unsure."""
    record: dict[str, Any] = json.loads(_TEMPLATE)
    lane = draw.randrange(6)
    names = tuple(LABELS)
    wanted = draw.choice(names)
    label = wanted if draw.random() < 0.97 else draw.choice(names)
    severity: Any = draw.choice(LABELS[wanted])
    score = round(min(0.999, draw.betavariate(9, 1.4)), 4)
    compared = CategoryKey(
        label=label,
        severity=severity,
        bucket=choose_bucket(score),
        reference_source="fixture_expected",
        reference_label=wanted,
        reference_severity=severity,
        applicable=True,
    )
    comparison, error_type = state_outcome(categorize_signal(compared))
    case = _case(wanted, compared.bucket, number)
    fixture = f"{CLASSES[lane]}.{case}.{number:07d}"
    busy = draw.randint(300, 9000)
    record["decision_id"] = f"01J{number:023d}"
    record["timestamp"] = f"2026-06-{1 + number % 28:02d}T{number % 24:02d}:00:{number % 60:02d}Z"
    record["source"] |= {
        "fixture_id": fixture,
        "artifact_ref": f"run:{number % 3}",
        "content_hash": f"sha256:{draw.getrandbits(256):064x}",
    }
    record["service"] |= {"name": SERVICES[lane], "endpoint": f"gateway/{CLASSES[lane]}"}
    record["input_class"] = CLASSES[lane]
    record["recommendation"] |= {
        "label": label,
        "severity": severity,
        "reasons": [f"code_{draw.randrange(200)}", f"rule_{draw.randrange(50)}_matched"],
        "evidence_refs": [f"fixture:field_{draw.randrange(30)}", f"fixture:{number % 97}"],
    }
    record["confidence"] |= {"score": score, "bucket": compared.bucket}
    record["human_or_atlas_decision"] |= {
        "label": wanted,
        "severity": severity,
        "decision_ref": fixture,
    }
    record["outcome"] |= {"comparison": comparison, "error_type": error_type}
    record["npu_proof"] |= {"busy_delta_us": busy, "service_reported_delta_us": busy - 20}
    total = round(draw.lognormvariate(3.4, 0.5), 3)
    record["latency"] |= {"total_ms": total, "service_ms": round(total * 0.9, 3)}
    if draw.random() < 0.01:
        record["fallback"] = {
            "occurred": True,
            "kind": "cpu",
            "reason": "npu_busy",
            "expected": True,
        }
    record["notes"] = [f"case:{case}", f"bounded sample {number}"]
    return record


def _case(wanted: str, bucket: str, number: int) -> str:
    if bucket in ("very_low", "low"):
        return "low_confidence"
    if LABELS[wanted][0] in ("none", "info"):
        return "false_alarm" if number % 5 == 0 else "normal"
    return "action_needed"


def alike(draw: random.Random, number: int) -> dict[str, Any]:
    """One agreeing record; another has another id, fixture and time, and the same everything."""
    record: dict[str, Any] = json.loads(_TEMPLATE)
    record["decision_id"] = f"01J{number:023d}"
    record["source"] |= {"fixture_id": f"cron_{number:07d}", "artifact_ref": f"run:{number % 3}"}
    record["human_or_atlas_decision"]["decision_ref"] = record["source"]["fixture_id"]
    record["latency"]["total_ms"] = 20.0 + draw.randrange(40)
    return record


def diverse(draw: random.Random, number: int) -> dict[str, Any]:
    """One sound record of which nearly every text and number is its own."""
    record = decision(draw, number)
    word = draw.choice(("queue", "disk", "card", "scan", "retrieval", "speaker"))
    second = f"{number % 24:02d}:{draw.randrange(60):02d}:{draw.randrange(60):02d}"
    day = f"2026-0{1 + number % 9}-{1 + draw.randrange(28):02d}"
    record["decision_id"] = _uuid(draw)
    record["timestamp"] = f"{day}T{second}.{draw.randrange(1000):03d}Z"
    record["source"]["artifact_ref"] = f"01JRN{number % 300:021d}"
    record["service"]["model"] = f"triage-{draw.randrange(4)}/CPU/f32"
    record["recommendation"] |= {
        "reasons": [
            f"{word}_depth_{draw.randrange(10**6)}",
            f"similarity_{draw.random():.4f}",
            f"rule_{draw.getrandbits(32):08x}",
        ],
        "evidence_refs": [f"fixture:{word}_{number}", f"artifact:{_uuid(draw)}"],
        "raw_output_ref": f"artifact:{_uuid(draw)}",
    }
    record["actual_action"]["side_effects"] = [f"local_report_write:reports/{word}-{number}.json"]
    record["human_or_atlas_decision"] |= {
        "decision_ref": f"review:{_uuid(draw)}",
        "timestamp": f"{day}T23:59:59Z",
        "confidence": round(draw.random(), 3),
    }
    record["latency"]["queue_ms"] = round(draw.expovariate(0.5), 3)
    if record["fallback"]["occurred"]:
        record["fallback"]["reason"] = f"npu_busy_for_{draw.randrange(10**5)}_us"
    record["notes"] = [
        record["notes"][0],
        f"model_digest:sha256:{draw.getrandbits(256):064x}",
        f"trace {draw.getrandbits(64):016x} of {word} {number}",
        _remark(draw, word),
    ]
    return record


def _remark(draw: random.Random, word: str) -> str:
    """A sentence as operators and services write them; half of them have a word to look at."""
    amount, share = draw.randrange(10**5), draw.random()
    return draw.choice(
        (
            f"{word} check passed on edge-{amount % 40:02d} after {share:.3f} s",
            f"{amount} tokens read by {word}, {share:.0%} of the budget",
            f"NPU driver 1.{amount % 30}.{amount % 7} reloaded; {word} was idle for {amount} ms",
            f"same {word} event as ops-{amount}, seen at {amount % 24:02d}:{amount % 60:02d}",
        )
    )


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


Kind = Literal["alike", "plain", "diverse"]
_MAKERS: dict[Kind, Callable[[random.Random, int], dict[str, Any]]] = {
    "alike": alike,
    "plain": decision,
    "diverse": diverse,
}


def write_decisions(path: Path, count: int, *, kind: Kind = "plain", seed: int = 1) -> None:
    """Write a file of ``count`` records."""
    draw = random.Random(seed)
    make = _MAKERS[kind]
    with path.open("w", encoding="utf-8") as stream:
        for number in range(count):
            stream.write(json.dumps(make(draw, number)) + "\n")
