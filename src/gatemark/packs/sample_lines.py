"""Answers as lines of samples, and samples as rows."""

from __future__ import annotations

from typing import Any

import msgspec

from gatemark.core.canonical import canonical_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer
from gatemark.targets.recorded import UNSCORED

FIRST_EPOCH = 1


def sample_of(row: Row) -> dict[str, Any]:
    """The row as it was written, for targets and scorers that look beyond its input."""
    sample: dict[str, Any] = {**row.extra, "id": row.id, "input": row.input, "tags": row.tags}
    for name in ("target", "cluster", "confidence"):
        if (value := getattr(row, name)) is not None:
            sample[name] = value
    return sample


def sample_line(row: Row, answer: Answer, scorer_name: str) -> bytes:
    """An answer as one ``gatemark.sample/1`` line, the same bytes every time."""
    failed = answer.error is not None or answer.score is None
    kind = answer.error or UNSCORED
    return (
        canonical_bytes(
            {
                "schema": "gatemark.sample/1",
                "id": row.id,
                "epoch": answer.epoch,
                "input": row.input,
                "target": row.target,
                "output": answer.output,
                "scores": {} if failed else {scorer_name: answer.score},
                "confidence": answer.confidence,
                "error": {"kind": kind, "message": answer.reason or kind} if failed else None,
                "latency_ms": answer.latency_ms,
                "cluster": row.cluster,
                "tags": row.tags,
            }
        )
        + b"\n"
    )


def read_sample_lines(data: bytes, place: str) -> list[dict[str, Any]]:
    """The samples of a stored file; anything else in it is an error with its line."""
    samples = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            sample = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise BadInputError(f"{place}:{number}: {error}") from error
        if not isinstance(sample, dict) or sample.get("schema") != "gatemark.sample/1":
            raise BadInputError(f"{place}:{number}: is not a gatemark.sample/1 record")
        sample.setdefault("epoch", FIRST_EPOCH)
        samples.append(sample)
    return samples
