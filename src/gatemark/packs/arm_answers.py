"""The answers of one arm to every suite, with the replies and vectors that they were scored by."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gatemark.packs.answers import Answer
from gatemark.packs.embeddings import Embedded, name_vectors
from gatemark.packs.judge_replies import Graded, name_replies


class ArmAnswers(msgspec.Struct, frozen=True):
    """What one arm answered and how it was scored, by suite; ``lines`` are the answers as stored.

    A suite that examines the answers to another suite has the same answers, and no lines.
    """

    answers: Mapping[str, tuple[Answer, ...]]
    lines: Mapping[str, bytes] = {}
    graded: Mapping[str, Graded] = {}
    embedded: Mapping[str, Embedded] = {}

    def list_line_files(self, arm: str) -> dict[str, bytes]:
        """Return the answers as files of a result, by name."""
        return {name_lines(suite, arm): data for suite, data in self.lines.items()}

    def list_reply_files(self, arm: str) -> dict[str, bytes]:
        """Return the judges' replies about the answers as files of a result, by name."""
        return {name_replies(suite, arm): found.lines() for suite, found in self.graded.items()}

    def list_vector_files(self, arm: str) -> dict[str, bytes]:
        """Return the vectors of the answers' texts as files of a result, by name."""
        return {name_vectors(suite, arm): found.lines() for suite, found in self.embedded.items()}


def name_lines(suite: str, arm: str) -> str:
    """Return the name of an arm's answers to a suite in a result."""
    return f"{suite}.{arm}.jsonl"
