"""``gatemark score advisory``: decision records in, a judged summary out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gatemark.core.atomic import write_together
from gatemark.core.canonical import json_file
from gatemark.evidence.exam import file_option
from gatemark.exams.advisory.exam import SUITE
from gatemark.exams.advisory.policy_file import read_advisory_policy, read_history
from gatemark.exams.advisory.views import render_markdown
from gatemark.exams.score import EVERY_EXAM, score_verb
from gatemark.gate.decide import Scored


class AdvisoryParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the command takes besides its files."""

    policy: Annotated[
        str | None, file_option("Advisory policy (YAML or JSON); defaults without.")
    ] = None
    history: Annotated[
        str | None,
        file_option("Folder of earlier summary.json files, for stability.", metavar="DIR"),
    ] = None


def advisory_options(parameters: AdvisoryParameters, _now: datetime) -> dict[str, Any]:
    """The options of the exam: the policy of a file, and the runs of a folder."""
    policy = {} if parameters.policy is None else read_advisory_policy(parameters.policy)
    history = [] if parameters.history is None else read_history(parameters.history)
    return {"policy": dict(policy), "history": [dict(run) for run in history]}


def summary_files(summary: Mapping[str, Any]) -> dict[str, bytes]:
    """``summary.json`` and ``summary.md``."""
    return {"summary.json": json_file(summary), "summary.md": render_markdown(summary)}


def write_summaries(folder: str, summary: Mapping[str, Any]) -> None:
    """Write ``summary.json`` and ``summary.md``, both or neither."""
    files = summary_files(summary)
    write_together([(Path(folder) / name, data) for name, data in files.items()])


def dated(scored: Scored) -> Scored:
    """The summary says when it was made."""
    moment = scored.result.finished_at.astimezone(UTC).isoformat(timespec="seconds")
    summary = {**scored.summary, "generated_at": moment.replace("+00:00", "Z")}
    return msgspec.structs.replace(scored, summary=summary)


SCORE = score_verb(
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
    to_options=advisory_options,
    finish=dated,
    writes="summary.json and summary.md",
    files_of=lambda scored: summary_files(scored.summary),
)
