"""Decisions from traces: what a span does is what a step does."""

from __future__ import annotations

from typing import get_args

from gatemark.attribution.decision import StepKind
from gatemark.samples.spans import SpanKind


def test_spans_and_steps_have_the_same_kinds() -> None:
    assert get_args(SpanKind) == get_args(StepKind)
