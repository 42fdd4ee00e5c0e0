"""Answers as ``gatemark.sample/1`` lines, as they are stored with a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gatemark.core.canonical import canonical_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer
from gatemark.targets.recorded import UNSCORED

FIRST_EPOCH = 1


def write_sample_line(
    row: Row,
    answer: Answer,
    scorer_name: str,
    recorded: Mapping[str, float | None] | None = None,
    origin: Mapping[str, object] | None = None,
) -> bytes:
    """Return an answer as one ``gatemark.sample/1`` line; the bytes are reproducible.

    ``recorded`` are scores that another tool gave, stored so that the score can be derived again.
    """
    failed = answer.error is not None or answer.score is None
    kind = answer.error or UNSCORED
    return (
        canonical_bytes(
            {
                **({"origin": origin} if origin else {}),
                "schema": "gatemark.sample/1",
                "id": row.id,
                "epoch": answer.epoch,
                "input": row.input,
                "target": row.target,
                "output": answer.output,
                "scores": {}
                if failed
                else {**(recorded or {}), **_list_scores(answer, scorer_name)},
                "confidence": answer.confidence,
                "error": {"kind": kind, "message": answer.reason or kind} if failed else None,
                "latency_ms": answer.latency_ms,
                **({} if answer.cost is None else {"cost": answer.cost}),
                **({} if answer.tokens is None else {"tokens": answer.tokens}),
                **({} if answer.answered_at is None else {"answered_at": answer.answered_at}),
                "cluster": row.cluster,
                "tags": row.tags,
            }
        )
        + b"\n"
    )


PART_MARK = "/"
"""Separator between a scorer and one of its parts in score names."""


def _list_scores(answer: Answer, scorer_name: str) -> dict[str, float | None]:
    parts = {f"{scorer_name}{PART_MARK}{name}": value for name, value in answer.parts.items()}
    return {scorer_name: answer.score, **parts}


def read_sample_lines(data: bytes, place: str) -> list[dict[str, Any]]:
    """Read the samples of a stored file; raise with the line for anything else."""
    samples = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            sample = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadInputError(f"{place}:{number}: {error}") from error
        if not isinstance(sample, dict) or sample.get("schema") != "gatemark.sample/1":
            raise BadInputError(f"{place}:{number}: is not a gatemark.sample/1 record")
        sample.setdefault("epoch", FIRST_EPOCH)
        samples.append(sample)
    return samples
