"""Options of the run-log exam: the judged variant, its gates and its score."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gatemark.core.errors import InvalidValueError
from gatemark.evidence.settings_file import about
from gatemark.plugins.runlog.records.fields import VARIANT_PATTERN
from gatemark.plugins.runlog.run_metrics import METRICS, SCORES


class RunlogOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the exam."""

    variant: Annotated[
        str, Meta(pattern=VARIANT_PATTERN, description="Variant that is judged and scored.")
    ] = "V0"
    score: Annotated[str, about("Metric that is the score.")] = "m6b_mean"
    gates: Annotated[
        dict[str, float],
        about("Bounds by metric: a minimum where higher is better, a maximum where lower is."),
    ] = {}
    coverage_gate: Annotated[
        float, Meta(ge=0, le=1, description="Minimum share of cases that the variant has.")
    ] = 1.0
    bootstrap_samples: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Resamples for the intervals.")
    ] = 10_000
    seed: Annotated[int, Meta(ge=0, lt=2**32, description="Random seed.")] = 42
    gates_on: Annotated[
        Literal["value", "interval"],
        about("What gates compare: the value, or its whole interval, which can be inconclusive."),
    ] = "value"
    reference: Annotated[
        str | None, about("Variant that paired gates compare the judged one with.")
    ] = None
    paired_gates: Annotated[
        dict[str, float],
        about("Margins by metric: by how much the judged variant may be worse, case by case."),
    ] = {}

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise InvalidValueError(f"score must be one of {', '.join(SCORES)}, got {self.score!r}")
        for kind, gates in (("gates", self.gates), ("paired_gates", self.paired_gates)):
            for name in gates:
                if name not in METRICS:
                    raise InvalidValueError(
                        f"{kind}: unknown metric {name!r} (known: {', '.join(METRICS)})"
                    )
                if METRICS[name].direction == "neutral":
                    raise InvalidValueError(
                        f"{kind}: {name} cannot be gated: neither side is better"
                    )
        if self.paired_gates and self.reference in (None, self.variant):
            raise InvalidValueError("paired_gates: reference must be another variant")
        for name, bound in self.gates.items():
            if METRICS[name].unit == "ratio" and not 0 <= bound <= 1:
                raise InvalidValueError(
                    f"gates: {name} is a share, so its bound must be in [0, 1], got {bound:g}"
                )
