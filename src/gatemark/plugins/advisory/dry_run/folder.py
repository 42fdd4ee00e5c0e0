"""The folder of a dry run: its card, the records of every run, and those of the last one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.atomic import write_whole
from gatemark.core.canonical import digest, json_file
from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.reading_choices import Limits
from gatemark.evidence.rows import BadLine, json_rows
from gatemark.evidence.source import inspect_source
from gatemark.plugins.advisory.record import AdvisoryDecision, Mode
from gatemark.plugins.advisory.score import find_history_files

CARD_FILE: Final = "dry-run.card"
DECISIONS_FILE: Final = "decisions.jsonl"
RUNS_FOLDER: Final = "runs"
MAX_CARD_BYTES: Final = 1024 * 1024


class RunCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a dry run asked, and of which services. Runs with the same ``key`` are comparable.

    ``targets`` name endpoints as records do; how they were written is only in the key.
    """

    fixture_set: str
    fixtures_digest: str
    fixtures_pinned: bool
    mode: Mode
    targets: dict[str, str]
    key: str


def make_card(
    fixtures: tuple[str, str, bool], mode: Mode, services: Mapping[str, tuple[str, str]]
) -> RunCard:
    """Return the card for a fixture set (name, digest, pinned) and services (text, endpoint)."""
    name, pin, pinned = fixtures
    spelled = {lane: service[0] for lane, service in services.items()}
    return RunCard(
        fixture_set=name,
        fixtures_digest=pin,
        fixtures_pinned=pinned,
        mode=mode,
        targets={lane: service[1] for lane, service in services.items()},
        key=digest({"fixtures": pin, "mode": mode, "services": spelled}),
    )


def refuse_other_runs(folder: Path, card: RunCard) -> None:
    """Refuse a folder with runs of something else, which would count as this one's history."""
    place = folder / CARD_FILE
    try:
        with place.open("rb") as stream:
            data = stream.read(MAX_CARD_BYTES)
    except FileNotFoundError:
        if (folder / RUNS_FOLDER).exists():
            raise UsageError(f"{folder} holds runs without a card; choose another --out") from None
        return
    except OSError as error:
        raise BadInputError(f"{place}: {error.strerror or error}") from error
    try:
        earlier = msgspec.json.decode(data, type=RunCard)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{place}: not the card of a dry run: {error}") from error
    if earlier.key != card.key:
        raise UsageError(
            f"{folder} holds runs with other fixtures, services or another mode; "
            "choose another --out"
        )


def encode_decisions(decisions: Sequence[AdvisoryDecision]) -> bytes:
    """Return the file of one run: one line per record."""
    return b"".join(msgspec.json.encode(decision) + b"\n" for decision in decisions)


def read_advisory_decisions(path: str) -> Iterator[tuple[str, AdvisoryDecision]]:
    """Yield the records of a file, each with its place; refuse what is not one."""
    for place, value in json_rows(inspect_source(path), Limits()):
        if isinstance(value, BadLine):
            raise BadInputError(f"{place}: {value.reason}")
        try:
            yield place, msgspec.convert(value, AdvisoryDecision)
        except msgspec.ValidationError as error:
            raise BadInputError(f"{place}: not an advisory decision record: {error}") from error


def build_run_path(folder: Path, run_id: str) -> Path:
    """Return the path of the records of a run."""
    return folder / RUNS_FOLDER / run_id / DECISIONS_FILE


def find_past_runs(folder: Path) -> list[str]:
    """Return the decision files of the runs that are already in a folder."""
    return find_history_files(str(folder / RUNS_FOLDER)) if (folder / RUNS_FOLDER).is_dir() else []


def write_runs(folder: Path, card: RunCard, runs: Mapping[str, bytes]) -> None:
    """Write the card and the records of every run."""
    write_whole(folder / CARD_FILE, [json_file(card)])
    for run_id, data in runs.items():
        write_whole(build_run_path(folder, run_id), [data])


def write_front(folder: Path, data: bytes) -> None:
    """Write the records of the last run to the top of the folder."""
    write_whole(folder / DECISIONS_FILE, [data])
