"""What to replay, how, and where to write the logs: the options of ``gatemark runlog run``."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gatemark.evidence.exam_options import option
from gatemark.plugins.runlog.records.names import UNKNOWN_COMMIT
from gatemark.plugins.runlog.records.run import Compat
from gatemark.plugins.runlog.records.trace_file_rules import Mode
from gatemark.plugins.runlog.replay.models import ModelChoice


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to replay, how, and where to write the logs."""

    traces: Annotated[str, option("Folder of traces.")] = "data/traces"
    output: Annotated[str, option("Folder for the run logs.")] = "data/runs"
    configs: Annotated[
        str | None, option("Folder of V0.yaml to V4.yaml (default: built in).", metavar="DIR")
    ] = None
    variants: Annotated[
        tuple[str, ...], option("Variant to run. Repeatable.", "--variant", "variants")
    ] = ()
    case: Annotated[str, option("Text that the name of a case must contain.")] = ""
    manifest: Annotated[
        str | None,
        option("Manifest of the traces (default: the only one near them).", metavar="FILE"),
    ] = None
    eval_run_id: Annotated[
        str | None, option("Name of the evaluation (default: made from the hashes).")
    ] = None
    code_commit: Annotated[str, option("Commit under test.")] = UNKNOWN_COMMIT
    created_at: Annotated[
        str | None,
        option("Time to write into the logs (default: that of the traces).", metavar="TIME"),
    ] = None
    compat: Annotated[
        Compat | None,
        option(
            "Compatibility mode (default: from the configuration).", "--compat", "--compat-mode"
        ),
    ] = None
    mode: Annotated[
        Mode,
        option(
            "Whether odd times and turns of a trace are errors or warnings.",
            "--mode",
            "--strictness",
        ),
    ] = "strict"
    allow_stub: Annotated[bool, option("Replay stub traces too.")] = False
    buffer_model: ModelChoice = ModelChoice("rules")
    summarizer_model: ModelChoice = ModelChoice("rules")
    record: Annotated[
        str | None,
        option("File to record every answer in, for a later --model FILE.", metavar="FILE"),
    ] = None
    keep_inputs: Annotated[bool, option("Write the prompts of the summarizer into the logs.")] = (
        False
    )
    extractor: Annotated[
        str | None,
        option("Concept extractor that metrics will use, for run_meta.", metavar="NAME|FILE"),
    ] = None
    stoplists: Annotated[
        str | None, option("Stoplists that metrics will use with it.", metavar="DIR")
    ] = None
    v3_report: Annotated[
        str | None, option("Report to take the chunk size of V3 from.", metavar="FILE")
    ] = None
    allow_commit_mismatch: Annotated[bool, option("Accept a V3 report of another commit.")] = False
    max_unparsable: Annotated[
        float,
        Meta(ge=0, le=1, description="Maximum share of model answers that cannot be read."),
    ] = 0.05
