"""``gatemark score advisory``: judge decision records and write a summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from gatemark.checks.score import (
    EVERY_EXAM,
    ScoreReport,
    ScoreRequest,
    exam_report,
    score_exam,
    score_verb,
)
from gatemark.core.atomic import write_together
from gatemark.core.canonical import json_file
from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.exam_options import file_option
from gatemark.evidence.judge_exam import Scored
from gatemark.plugins.advisory.chat_message import render_message
from gatemark.plugins.advisory.exam import HISTORY, SUITE
from gatemark.plugins.advisory.fixtures.files import open_fixtures
from gatemark.plugins.advisory.pinned_fixtures import PinnedFixture
from gatemark.plugins.advisory.policy_file import read_advisory_policy
from gatemark.workspace import Workspace

MAX_FILES: Final = 1_000


class AdvisoryParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the command besides its files."""

    policy: Annotated[
        str | None, file_option("Advisory policy (YAML or JSON; default: built in).")
    ] = None
    history: Annotated[
        str | None,
        file_option("Folder of earlier decision files (.jsonl), for stability.", metavar="DIR"),
    ] = None
    fixtures: Annotated[
        str | None,
        file_option(
            "Fixtures that every run must have: 'builtin', or a folder with a manifest.",
            metavar="builtin|DIR",
        ),
    ] = None


def build_options(parameters: AdvisoryParameters, _now: datetime) -> dict[str, Any]:
    """Return the options of the exam: policy and fixtures."""
    policy = {} if parameters.policy is None else read_advisory_policy(parameters.policy)
    options: dict[str, Any] = {"policy": policy}
    if parameters.fixtures is not None:
        options["fixtures"] = pin_fixtures(parameters.fixtures)
    return options


def pin_fixtures(path: str) -> dict[str, Any]:
    """Return the fixtures of a manifest as the exam pins them."""
    opened = open_fixtures(path)
    if not opened.pinned:
        raise UsageError(f"{path}: fixtures need a manifest to be pinned; give their folder")
    return {
        "fixture_set": opened.name,
        "fixtures": [
            {name: getattr(fixture, name) for name in PinnedFixture.__struct_fields__}
            for fixture in opened.fixtures
        ],
    }


def find_history_files(folder: str) -> list[str]:
    """Return the decision files in a folder and its subfolders.

    A folder with only summaries is refused: anyone can write a summary.
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


def _score(workspace: Workspace, request: ScoreRequest) -> ScoreReport:
    """Score decision files together with those of earlier runs."""
    started_at = workspace.clock()
    parameters: AdvisoryParameters = request.parameters
    options = build_options(parameters, started_at)
    paths = [] if parameters.history is None else find_history_files(parameters.history)
    files = [*request.files, *((HISTORY, path) for path in paths)]
    scored = score_exam(
        workspace, SUITE.kind, options, replace(request, files=files), started_at=started_at
    )
    return exam_report(add_date(scored), lambda found: render_summaries(found.summary))


def render_summaries(summary: Mapping[str, Any]) -> dict[str, bytes]:
    """Return ``summary.json`` and ``summary.md``."""
    return {"summary.json": json_file(summary), "summary.md": render_message(summary)}


def write_summaries(folder: str, summary: Mapping[str, Any]) -> None:
    """Write ``summary.json`` and ``summary.md``, both or neither."""
    files = render_summaries(summary)
    write_together([(Path(folder) / name, data) for name, data in files.items()])


def add_date(scored: Scored) -> Scored:
    """Return the summary with the time it was made."""
    moment = scored.result.finished_at.astimezone(UTC).isoformat(timespec="seconds")
    summary = {**scored.summary, "generated_at": moment.replace("+00:00", "Z")}
    return msgspec.structs.replace(scored, summary=summary)


_VERB = score_verb(
    SUITE,
    summary="Score advisory decision records lane by lane and judge them.",
    help="""\
\b
Examples:
  gatemark score advisory decisions.jsonl
  gatemark score advisory run3.jsonl --history runs/ --policy advisory.yaml --out runs/3
  gatemark score advisory decisions.jsonl --json -o report.html

Exit codes: 0 every bound holds, 1 one is broken, 2 bad input, 3 could not be judged.
A pass makes lanes candidates for discussion. It grants nothing.""",
    features=EVERY_EXAM | {"cache"},
    parameters=AdvisoryParameters,
    writes="summary.json and summary.md",
)
SCORE = replace(_VERB, roles=SUITE.roles[:1], score=_score)
