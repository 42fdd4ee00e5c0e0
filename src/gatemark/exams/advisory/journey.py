"""``gatemark score advisory``: judge decision records and write a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from gatemark.core.atomic import write_together
from gatemark.core.canonical import json_file
from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.exam import Scored, file_option, suites
from gatemark.evidence.settings_file import read_settings
from gatemark.exams.advisory.exam import HISTORY, SUITE
from gatemark.exams.advisory.fixtures.files import open_fixtures
from gatemark.exams.advisory.inputs import PinnedFixture
from gatemark.exams.score import (
    EVERY_EXAM,
    ScoreReport,
    ScoreRequest,
    exam_report,
    score_exam,
    score_verb,
)
from gatemark.report import words
from gatemark.report.markdown import code
from gatemark.workspace import Workspace


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


def advisory_options(parameters: AdvisoryParameters, _now: datetime) -> dict[str, Any]:
    """Return the options of the exam: policy and fixtures."""
    policy = {} if parameters.policy is None else read_advisory_policy(parameters.policy)
    options: dict[str, Any] = {"policy": policy}
    if parameters.fixtures is not None:
        options["fixtures"] = pinned_fixtures(parameters.fixtures)
    return options


def pinned_fixtures(path: str) -> dict[str, Any]:
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


def _score(workspace: Workspace, request: ScoreRequest) -> ScoreReport:
    """Score decision files together with those of earlier runs."""
    started_at = workspace.clock()
    parameters: AdvisoryParameters = request.parameters
    options = advisory_options(parameters, started_at)
    paths = [] if parameters.history is None else history_files(parameters.history)
    files = [*request.files, *((HISTORY, path) for path in paths)]
    scored = score_exam(
        workspace, SUITE.kind, options, replace(request, files=files), started_at=started_at
    )
    return exam_report(dated(scored), lambda found: summary_files(found.summary))


def summary_files(summary: Mapping[str, Any]) -> dict[str, bytes]:
    """Return ``summary.json`` and ``summary.md``."""
    return {"summary.json": json_file(summary), "summary.md": render_markdown(summary)}


def write_summaries(folder: str, summary: Mapping[str, Any]) -> None:
    """Write ``summary.json`` and ``summary.md``, both or neither."""
    files = summary_files(summary)
    write_together([(Path(folder) / name, data) for name, data in files.items()])


def dated(scored: Scored) -> Scored:
    """Return the summary with the time it was made."""
    moment = scored.result.finished_at.astimezone(UTC).isoformat(timespec="seconds")
    summary = {**scored.summary, "generated_at": moment.replace("+00:00", "Z")}
    return msgspec.structs.replace(scored, summary=summary)


MESSAGE_CHARS_MAX: Final = 2_000
"""Maximum length of a message on Discord; Telegram and Slack allow more."""
_LINE_CHARS_MAX: Final = 180
_SHOWN: Final = ((12, 6, 5), (8, 5, 4), (6, 4, 3), (6, 3, 2), (4, 2, 1), (2, 1, 1), (1, 0, 0))
"""How many lanes, blockers and caveats are shown; fewer until the message fits."""
_LAST_LINE: Final = "No authority is granted by this run."


def render_markdown(summary: Mapping[str, Any]) -> bytes:
    """Return the message; what does not fit is counted, never silently dropped."""
    text = ""
    for lanes, blockers, caveats in _SHOWN:
        text = "\n".join(_message_lines(summary, lanes, blockers, caveats)) + "\n"
        if len(text) <= MESSAGE_CHARS_MAX:
            return text.encode()
    # Names may be so long that even one of each does not fit.
    room = MESSAGE_CHARS_MAX - len(_LAST_LINE) - 3
    return f"{text[:room]}\u2026\n{_LAST_LINE}\n".encode()


def _message_lines(
    summary: Mapping[str, Any], lanes: int, blockers: int, caveats: int
) -> Iterator[str]:
    promotion = summary["promotion"]
    word = words.VERDICT_WORDS[summary["verdict"]]
    yield f"**{word}** advisory dry run, {summary['total_records']:,} records"
    runs, fixtures = _listed(summary["run_ids"], 3), _listed(summary["fixture_sets"], 3)
    yield f"- run: {runs}; fixtures: {fixtures}"
    policy = code(summary["advisory_policy_digest"][:19])
    yield f"- generated at {summary['generated_at']}; policy {policy}"
    yield ""
    yield "**Lanes**"
    yield from _shortened(
        [
            _lane_line(name, lane, promotion["lanes"][name]["status"].partition(":")[0])
            for name, lane in summary["lanes"].items()
        ],
        lanes,
        "lane",
    )
    yield f"**Promotion blockers** ({len(promotion['blockers'])})"
    yield from _shortened([_bullet(text) for text in promotion["blockers"]], blockers, "blocker")
    wrong = summary["wrong_records"]
    yield f"**Records to look at** ({wrong['total']:,}), worst first"
    lines = [_wrong_line(record) for record in wrong["worst"][:caveats]]
    yield from lines or ["- none"]
    if wrong["total"] > len(lines):
        yield f"- and {wrong['total'] - len(lines):,} more; summary.json lists the worst 100"
    yield "**Numbers**"
    yield f"- {_comparison(summary)}"
    yield f"- buckets: {_nonzero(summary['confidence_bucket_counts'])}"
    yield f"- {_fallbacks(summary)}"
    yield (
        f"- NPU proof: {summary['npu_proof_ok_count']:,} ok, "
        f"{summary['npu_proof_missing_count']:,} missing, "
        f"{summary['npu_proof_not_applicable_count']:,} not applicable"
    )
    yield (
        f"- violations: {summary['authority_flag_violation_count']:,} authority, "
        f"{summary['privacy_violation_count']:,} privacy, "
        f"{summary['actual_side_effect_count']:,} side effects"
    )
    yield f"**Caveats** ({len(promotion['caveats'])})"
    yield from _shortened([_bullet(text) for text in promotion["caveats"]], caveats, "caveat")
    candidates = promotion["candidate_lanes"]
    yield f"**Candidates for discussion**: {_listed(candidates, 6)}"
    yield _LAST_LINE


def _lane_line(name: str, lane: Mapping[str, Any], status: str) -> str:
    latency = lane["latency"]
    low_high = lane["intervals"].get("agreement_rate")
    within = "" if low_high is None else f" ({low_high[0]:.2f} to {low_high[1]:.2f})"
    return (
        f"- {code(name)} {status}: {lane['total_records']:,} records, "
        f"agreement {_rate(lane['rates']['agreement_rate'])}{within}, "
        f"uncertain {_rate(lane['rates']['uncertain_rate'])}, p95 {_milliseconds(latency['p95'])}"
    )


def _wrong_line(record: Mapping[str, Any]) -> str:
    fixture = record["fixture_id"] or "no fixture"
    return _bullet(
        f"{record['problem']} {fixture} ({record['decision_id']}): expected "
        f"{record['expected'] or 'nothing'}, given {record['given']}"
    )


def _comparison(summary: Mapping[str, Any]) -> str:
    rate = _rate(summary["rates"]["agreement_rate"])
    return (
        f"agree {summary['agree_count']:,}, disagree {summary['disagree_count']:,}, "
        f"uncertain {summary['uncertain_count']:,}, "
        f"false positive {summary['false_positive_count']:,}, "
        f"false negative {summary['false_negative_count']:,}, "
        f"missing reference {summary['missing_reference_count']:,}; agreement rate {rate}"
    )


def _fallbacks(summary: Mapping[str, Any]) -> str:
    kinds = _nonzero(summary["fallback_counts_by_kind"])
    return (
        f"fallbacks: {summary['fallback_count']:,} "
        f"({summary['unexpected_fallback_count']:,} unexpected; {kinds}); "
        f"timeouts: {summary['timeout_count']:,}"
    )


def _nonzero(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "none"


def _bullet(text: str) -> str:
    """Return a line as code, so that chat programs do not format it or mention anyone."""
    line = words.shortened(words.one_line(text).replace("`", "'"), _LINE_CHARS_MAX)
    return f"- `{line}`"


def _shortened(lines: Sequence[str], most: int, noun: str) -> Iterator[str]:
    yield from lines[:most] or ["- none"]
    if len(lines) > most:
        yield f"- and {words.counted(len(lines) - most, f'more {noun}')}"


def _listed(names: Sequence[str], most: int) -> str:
    return words.first_few([code(name) for name in names], most) or "none"


def _rate(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _milliseconds(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.1f} ms"


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
KIND = "advisory"
MAX_POLICY_BYTES = 1024 * 1024
MAX_FILES = 1_000


def read_advisory_policy(path: str) -> dict[str, Any]:
    """Read and check a policy file; missing keys have their defaults."""
    value = read_settings(path, max_bytes=MAX_POLICY_BYTES)
    if not isinstance(value, dict) or value.get("gatemark_advisory") != 1:
        raise BadInputError(f"{path}: must say gatemark_advisory: 1")
    try:
        msgspec.convert({"policy": value}, suites().get(KIND).options)
    except msgspec.ValidationError as error:
        message = str(error).replace("$.policy", "$")
        raise BadInputError(f"{path}: {message}") from error
    return value


def history_files(folder: str) -> list[str]:
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
