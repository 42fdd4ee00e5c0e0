"""OpenTelemetry traces in OTLP JSON, with GenAI or OpenInference attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gatemark.samples.foreign_json import key_paths
from gatemark.samples.importer import ForeignFile, Imported, Importer, LogExperiment, ReadOptions
from gatemark.samples.otlp import read_spans
from gatemark.samples.trace_samples import trace_arms, trace_samples

NAME: Final = "otlp"


def sniff(head: bytes, _filename: str) -> bool:
    """An object that holds resource spans."""
    return "resourceSpans" in key_paths(head)


def arms(files: Sequence[ForeignFile], _options: ReadOptions) -> tuple[LogExperiment, ...]:
    """All traces together."""
    return trace_arms(files, read_spans)


def read(files: Sequence[ForeignFile], options: ReadOptions) -> Imported:
    """One sample per trace; spans of one trace may lie in several files."""
    return trace_samples(NAME, files, options, read_spans)


IMPORTER = Importer(
    name=NAME,
    summary="OpenTelemetry traces (OTLP JSON), GenAI or OpenInference attributes: one per trace.",
    sniff=sniff,
    arms=arms,
    read=read,
    joint=True,
)
