"""Langfuse's export of observations, as JSON Lines or as one list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gatemark.samples.foreign_json import key_paths
from gatemark.samples.importer import ForeignFile, Imported, Importer, LogExperiment, ReadOptions
from gatemark.samples.langfuse import read_spans
from gatemark.samples.trace_samples import trace_arms, trace_samples

NAME: Final = "langfuse"
_MARKS: Final = {"trace_id", "parent_observation_id", "start_time"}


def sniff(head: bytes, _filename: str) -> bool:
    """Objects with an observation's own keys."""
    paths = key_paths(head)
    return any(paths >= {f"{prefix}{mark}" for mark in _MARKS} for prefix in ("", "[]."))


def arms(files: Sequence[ForeignFile], _options: ReadOptions) -> tuple[LogExperiment, ...]:
    """All traces together."""
    return trace_arms(files, read_spans)


def read(files: Sequence[ForeignFile], options: ReadOptions) -> Imported:
    """One sample per trace; observations of one trace may lie in several files."""
    return trace_samples(NAME, files, options, read_spans)


IMPORTER = Importer(
    name=NAME,
    summary="Langfuse's exported observations (JSON Lines or JSON): one sample per trace.",
    sniff=sniff,
    arms=arms,
    read=read,
    joint=True,
)
