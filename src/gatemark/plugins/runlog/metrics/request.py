"""What to measure of run logs and how: the options of ``gatemark runlog metrics``."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gatemark.evidence.exam_options import option
from gatemark.plugins.runlog.concepts.choose import ExtractorSpec
from gatemark.plugins.runlog.traces.trace import TextCompat, TracesFolder


class MetricsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure and how.

    ``judged`` is the variant that is gated and scored. ``computed_at`` is the time written to the
    files (default: the time at which the last trace ended, so that the same inputs give the same
    bytes).
    """

    runs: Annotated[
        str,
        option(
            "Folder of run logs, one folder per variant: V0/case-….jsonl.gz.",
            "--runs",
            "--run-logs",
            metavar="DIR",
        ),
    ] = "data/runs"
    traces: TracesFolder = "data/traces"
    manifest: Annotated[
        str | None,
        option("Manifest of the traces (default: the only one in their folder).", metavar="FILE"),
    ] = None
    configs: Annotated[
        str | None,
        option("Folder of variant configurations (default: the built-in variants).", metavar="DIR"),
    ] = None
    variants: tuple[str, ...] = ()
    extractor: ExtractorSpec = ExtractorSpec()
    judged: Annotated[
        str | None,
        option("Variant that gates and score are about (default: the first).", metavar="V"),
    ] = None
    score: Annotated[str, option("Metric that becomes the score.", metavar="METRIC")] = "m6b_mean"
    gates: dict[str, float] = {}
    gates_on: Annotated[
        Literal["value", "interval"],
        option("What gates compare: the value, or its whole interval, which can be inconclusive."),
    ] = "value"
    reference: Annotated[
        str | None,
        option("Variant that paired gates compare the judged one with.", metavar="V"),
    ] = None
    paired_gates: dict[str, float] = {}
    coverage_gate: Annotated[
        float, Meta(ge=0, le=1, description="Minimum share of cases with a usable log.")
    ] = 1.0
    on_bad_case: Annotated[
        Literal["error", "exclude"],
        option("Whether to refuse the input, or to count and show excluded logs."),
    ] = "error"
    bootstrap_samples: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Number of resamples per interval.")
    ] = 10_000
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1, description="Random seed of the intervals.")] = 42
    timeline_case: Annotated[
        str | None,
        option("Case to draw (default: one that stands out).", "--timeline", metavar="CASE"),
    ] = None
    computed_at: Annotated[
        str | None,
        option(
            "Time to write into the files (default: the end of the last trace).", metavar="TIME"
        ),
    ] = None
    compat: TextCompat = "gatemark"
    max_errors: Annotated[int, Meta(ge=1, description="Maximum number of problems to list.")] = 20
