"""Advisory policies from YAML or JSON, and the decision files of earlier runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.exam import suites
from gatemark.evidence.settings_file import read_settings
from gatemark.exams.advisory.policy import RULES

KIND = "advisory"
MAX_POLICY_BYTES = 1024 * 1024
MAX_FILES = 1_000


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


def exam_options(policy: Mapping[str, object]) -> dict[str, Any]:
    """The options of an exam by today's rules."""
    return {"policy": dict(policy), "rules": RULES}


def history_files(folder: str) -> list[str]:
    """The decision files in a folder and below it, of whatever runs.

    A folder that has only summaries is refused: anyone can type a summary.
    """
    place = Path(folder)
    if not place.is_dir():
        raise BadInputError(f"{folder}: is not a folder")
    paths = sorted(str(path) for path in place.rglob("*.jsonl") if path.is_file())
    if len(paths) > MAX_FILES:
        raise BadInputError(f"{folder}: holds more than {MAX_FILES} decision files")
    if not paths and any(place.rglob("*.json")):
        raise BadInputError(
            f"{folder}: holds summaries but no decision files (.jsonl); stability is computed from "
            "records, so put the earlier decisions.jsonl files there"
        )
    return paths
