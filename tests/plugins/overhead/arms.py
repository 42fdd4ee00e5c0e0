"""Arm files for tests, as plain records."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def meta(arm: str = "bare", *, windows: int = 4, **more: Any) -> Record:
    return {
        "record_type": "arm_meta",
        "arm": arm,
        "metric_kind": "ppl_causal",
        "seeds": {"python": 7, "numpy": 7, "torch": None, "bootstrap": 7},
        "device": "cpu",
        "snapshot_hash": "sha256:aa",
        "plan": {"seq_len": 8, "stride": 8, "windows": windows},
    } | more


def losses(values: Sequence[float], tokens: Sequence[int] | None = None) -> list[Record]:
    return [
        {
            "record_type": "window",
            "window_id": f"w{i}",
            "content_hash": f"h{i}",
            "tokens": tokens[i] if tokens else 100,
            "loss": value,
        }
        for i, value in enumerate(values)
    ]


def counts(values: Sequence[tuple[int, int]]) -> list[Record]:
    return [
        {
            "record_type": "window",
            "window_id": f"w{i}",
            "content_hash": f"h{i}",
            "correct": correct,
            "total": total,
        }
        for i, (correct, total) in enumerate(values)
    ]


def write(path: Path, records: Sequence[Record | str]) -> Path:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def loss_arm(path: Path, arm: str, values: Sequence[float], **more: Any) -> Path:
    return write(path, [meta(arm, windows=len(values), **more), *losses(values)])


def count_arm(path: Path, arm: str, values: Sequence[tuple[int, int]], **more: Any) -> Path:
    head = meta(arm, windows=len(values), metric_kind="accuracy", **more)
    return write(path, [head, *counts(values)])


def ppl_pair(folder: Path, bare: float, guarded: float, windows: int = 200) -> list[Any]:
    """Two arms of equal windows with these perplexities, as arguments of the command."""
    return [
        "--bare",
        loss_arm(folder / "bare.jsonl", "bare", [math.log(bare)] * windows),
        "--guarded",
        loss_arm(folder / "guarded.jsonl", "guarded", [math.log(guarded)] * windows),
    ]


def accuracy_pair(
    folder: Path, bare: Sequence[tuple[int, int]], guarded: Sequence[tuple[int, int]]
) -> list[Any]:
    return [
        "--bare",
        count_arm(folder / "bare.jsonl", "bare", bare),
        "--guarded",
        count_arm(folder / "guarded.jsonl", "guarded", guarded),
    ]
