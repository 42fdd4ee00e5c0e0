"""Invented evidence for the agreement exam that is as unlike itself as evidence in life.

Ids are hexadecimal, every text differs from the last, some answers have keys that nobody reads, and
reasons quote ids, dates and numbers. ``escaped`` texts have signs beyond ASCII, as ``json.dumps``
writes them by default.
"""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any, Final

REFUSED: Final = "NOT_IN_CONTEXT"
LABELS: Final = ("VALID", REFUSED, "REJECT", "ABSTAIN")
_WORDS: Final = (
    *("the", "claim", "stands", "in", "passage", "page", "of", "manual", "but", "not", "for"),
    *("older", "model", "it", "names", "range", "differs", "from", "what", "was", "asked"),
    *("because", "table", "lists", "other", "unit", "cites", "source", "twice", "supported"),
)
_ESCAPED_WORDS: Final = (*_WORDS, "Größe", "für", "naïve", "температура", "値", "“quoted”")


def _write_text(draw: random.Random, words: tuple[str, ...], count: int) -> str:
    return " ".join(draw.choices(words, k=count))


def _make_pair(draw: random.Random, words: tuple[str, ...]) -> dict[str, Any]:
    scholar = draw.choices(LABELS, (70, 15, 14, 1))[0]
    auditor = scholar if draw.random() < 0.95 else draw.choice(LABELS[:3])
    passages = [f"doc-{draw.getrandbits(64):016x}#{draw.randint(1, 90)}" for _ in range(3)]
    claim = f"{_write_text(draw, words, 14)} {draw.randint(10, 99_999)}."
    answer: dict[str, Any] = {
        "claim": "not in context" if scholar == auditor == REFUSED else claim,
        "citations": passages[: draw.randint(1, 2)],
        "constraints_echo": [_write_text(draw, words, 6)],
    }
    if draw.random() < 0.1:
        answer["confidence"] = round(draw.random(), 4)
    seen = f"2026-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
    return {
        "qid": f"{draw.getrandbits(128):032x}",
        "scholar": {
            "label": scholar,
            "reason": f"{_write_text(draw, words, 8)}, {passages[0]}, read {seen}",
        },
        "auditor": {
            "label": auditor,
            "reason": f"{_write_text(draw, words, 9)}; {draw.randint(1, 400)} of 400",
        },
        "answer_json": answer,
        "retrieved_ids": passages,
        "flags": {"provenance_violation": False, "constraints_mismatch": draw.random() < 0.01},
    }


def write_pairs(path: Path, count: int, *, escaped: bool = False) -> None:
    """Write merged pairs of about 0.7 kilobytes each."""
    draw = random.Random(count)
    words = _ESCAPED_WORDS if escaped else _WORDS
    with path.open("w", encoding="utf-8") as stream:
        for _ in range(count):
            stream.write(json.dumps(_make_pair(draw, words)) + "\n")


_SHUFFLED: Final = 10_000


def write_sides(pairs: Path, folder: Path, *, evidence: bool) -> tuple[Path, Path]:
    """Write the same opinions as one file per validator, each in an order of its own.

    Rows change places within a part of the file: what is held here would count as the memory of the
    commands that are started from here.
    """
    paths = folder / "scholar.jsonl", folder / "auditor.jsonl"
    for path, name in zip(paths, ("scholar", "auditor"), strict=True):
        draw = random.Random(name)
        with pairs.open(encoding="utf-8") as rows, path.open("w", encoding="utf-8") as stream:
            while some := list(islice(rows, _SHUFFLED)):
                draw.shuffle(some)
                stream.writelines(_write_side(json.loads(line), name, evidence) for line in some)
    return paths


def _write_side(row: dict[str, Any], name: str, evidence: bool) -> str:
    seen = {key: row[key] for key in ("answer_json", "retrieved_ids", "flags")}
    return json.dumps({"qid": row["qid"], **row[name], **(seen if evidence else {})}) + "\n"
