"""Advisory policies from YAML or JSON, and the earlier runs that stability is judged against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.exam import suites
from gatemark.evidence.settings_file import read_settings

KIND = "advisory"
MAX_POLICY_BYTES = 1024 * 1024
MAX_SUMMARY_BYTES = 16 * 1024 * 1024
MAX_SUMMARIES = 1_000

Count = Annotated[int, msgspec.Meta(ge=0)]


class EarlierSummary(msgspec.Struct, frozen=True):
    """The parts of an earlier summary that later runs are compared with."""

    schema: Literal["gatemark.advisory_summary/1"]
    fixture_sets: tuple[str, ...]
    runs: dict[str, dict[str, dict[str, Count]]]
    evidence_digests: tuple[str, ...]


def read_advisory_policy(path: str) -> dict[str, Any]:
    """The policy of a file, checked; keys left out keep their defaults."""
    value = read_settings(path, max_bytes=MAX_POLICY_BYTES)
    if not isinstance(value, dict) or value.get("gatemark_advisory") != 1:
        raise BadInputError(f"{path}: must say gatemark_advisory: 1")
    try:
        msgspec.convert({"policy": value}, suites().get(KIND).options)
    except msgspec.ValidationError as error:
        message = str(error).replace("$.policy", "$")
        raise BadInputError(f"{path}: {message}") from error
    return value


def read_history(folder: str) -> list[dict[str, Any]]:
    """The runs of every summary in a folder, each once, as the exam wants them.

    Each ``.json`` file of the folder itself and each ``summary.json`` below it must be a summary.
    """
    place = Path(folder)
    if not place.is_dir():
        raise BadInputError(f"{folder}: is not a folder")
    found: dict[str, dict[str, Any]] = {}
    for path in _summaries(place):
        for past in past_runs(_read_summary(path)):
            found[past["run"]] = past
    return [found[name] for name in sorted(found)]


def past_runs(summary: EarlierSummary) -> Iterator[dict[str, Any]]:
    """The runs of one summary; a run without an id goes by its evidence."""
    for run, lanes in summary.runs.items():
        yield {
            "run": run or ",".join(sorted(summary.evidence_digests)),
            "fixture_sets": list(summary.fixture_sets),
            "evidence": list(summary.evidence_digests),
            "lanes": lanes,
        }


def _summaries(place: Path) -> Iterator[Path]:
    top = sorted(place.glob("*.json"))
    below = sorted(path for path in place.rglob("summary.json") if path.parent != place)
    paths = [*top, *below]
    if len(paths) > MAX_SUMMARIES:
        raise BadInputError(f"{place}: holds more than {MAX_SUMMARIES} summaries")
    yield from paths


def _read_summary(path: Path) -> EarlierSummary:
    try:
        if path.stat().st_size > MAX_SUMMARY_BYTES:
            raise BadInputError(f"{path}: is larger than {MAX_SUMMARY_BYTES} bytes")
        return msgspec.json.decode(path.read_bytes(), type=EarlierSummary)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{path}: is not the summary of an advisory run: {error}") from error
