"""The replies of a judge about some items, and how they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from gatemark.packs.answers import ItemKey
from gatemark.packs.embeddings import read_lines, write_lines
from gatemark.scorers.judge.prompt import JudgeReply
from gatemark.scorers.scorer import Scorable
from gatemark.targets.port import CallError, ErrorKind

QUALIFICATION = "qualification"
UNASKED = "could not be asked: "
"""Prefix of a stored reply if the judge could not be called; the kind of error follows."""


Items = Mapping[ItemKey, Scorable]
Replies = dict[ItemKey, tuple[JudgeReply, ...]]


class Graded(msgspec.Struct, frozen=True):
    """A judge's replies about some items, and the digest of its identity."""

    judge: str
    replies: Replies

    def outages(self) -> dict[ItemKey, CallError]:
        """Return the items for which the judge could not be called, and why."""
        found = {}
        for key, replies in self.replies.items():
            errors = [reply.error for reply in replies if reply.error is not None]
            unasked = [error for error in errors if error.startswith(UNASKED)]
            if unasked:
                kind, _, message = unasked[0].removeprefix(UNASKED).partition(": ")
                found[key] = CallError(cast("ErrorKind", kind), message)
        return found

    def lines(self) -> bytes:
        """Return the replies as stored: a header, then a line per item."""
        rows = [
            {"id": name, "epoch": epoch, "replies": msgspec.to_builtins(self.replies[name, epoch])}
            for name, epoch in sorted(self.replies)
        ]
        return write_lines({"judge": self.judge}, *rows)


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    judge: str


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    epoch: int
    replies: tuple[JudgeReply, ...]


def read_graded(data: bytes, place: str) -> Graded:
    """Read stored replies; any other line raises an error with its number."""
    header, lines = read_lines(data, place, _Header, _Line)
    judge = "" if header is None else header.judge
    return Graded(judge, {(line.id, line.epoch): line.replies for line in lines})


def name_replies(suite: str, place: str) -> str:
    """Return the name of a judge's replies in a result; ``place`` is an arm or its own exam."""
    return f"{suite}/{place}.judge"
