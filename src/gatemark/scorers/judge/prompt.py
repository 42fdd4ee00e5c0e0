"""Prompts for a judge: a pinned template, and judged text that cannot pose as instructions.

Every inserted text stands between two markers that contain a nonce. The nonce is drawn after the
text was written, so the text cannot close its own marker; text that contains the nonce anyway is
refused. The reply's grade line contains the nonce too, so a judge that merely repeats what it read
gives no valid grade.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.scorers.scorer import Scorable, truncate

MAX_REPLY_LENGTH: Final = 100_000

_NONCE: Final = re.compile(r"[0-9a-f]{16,64}")
_SLOT: Final = re.compile(r"\{\{(\w+)\}\}")


class JudgeReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One recorded reply of a judge, or why there is none.

    ``prompt`` is the digest of the prompt it answers, so that a reply cannot be moved to another
    item or another answer; ``nonce`` is the marker of that prompt.
    """

    nonce: str
    prompt: str
    text: str | None
    error: str | None = None

    def __post_init__(self) -> None:
        check_nonce(self.nonce)
        if (self.text is None) == (self.error is None):
            raise InvalidValueError("a reply needs a text or an error, and not both")


class Unread(msgspec.Struct, frozen=True):
    """A reply that gives no label, and why."""

    reason: str


class JudgeTask(Protocol):
    """What a judge is asked about one item: to grade an answer, or to compare two."""

    @property
    def prompt_digest(self) -> str:
        """The digest of the template."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the judge and people may give."""

    @property
    def vote_count(self) -> int:
        """How often the judge is asked about one item."""

    def identity(self) -> dict[str, str]:
        """Return what must be equal for two replies to be comparable, besides the target."""

    def problem(self, item: Scorable) -> str | None:
        """Return why this is not an item to judge, or None."""

    def prompt(self, item: Scorable, nonce: str, vote: int) -> str:
        """Return the prompt of one vote; votes are counted from 0."""

    def label(self, item: Scorable, replies: Sequence[JudgeReply]) -> str | None:
        """Return the label that the replies give an item, or None."""


def check_nonce(nonce: str) -> None:
    """Refuse a nonce that could be guessed or could break a line."""
    if not _NONCE.fullmatch(nonce):
        raise InvalidValueError(
            f"a nonce must be 16 to 64 lower-case hex digits, got {truncate(nonce, 40)!r}"
        )


def template_digest(template: str, judged: tuple[str, ...]) -> str:
    """Return the digest that pins a template and the names of its slots."""
    return digest({"template": template, "judged": list(judged)})


def check_template(template: str, slots: frozenset[str]) -> None:
    """Refuse a template that leaves a slot out or has one that nothing fills."""
    found = _SLOT.findall(template)
    if set(found) != slots:
        raise InvalidValueError(
            f"template must have exactly the slots {', '.join(sorted(slots))}, "
            f"got {', '.join(sorted(set(found))) or 'none'}"
        )


def render_prompt(
    template: str, *, judged: Mapping[str, str], plain: Mapping[str, str], nonce: str
) -> str:
    """Return the prompt: judged texts between markers, others unchanged, in one pass."""
    check_nonce(nonce)
    for name, text in judged.items():
        if nonce in text:
            raise BadInputError(f"{name} holds the nonce of its own prompt; draw another")
    filled = {
        **plain,
        "nonce": nonce,
        **{
            name: f"<<<{name} {nonce}>>>\n{text}\n<<<end {name} {nonce}>>>"
            for name, text in judged.items()
        },
    }
    # One pass over the template alone: a slot written inside a judged text stays text.
    return _SLOT.sub(lambda match: filled[match.group(1)], template)


def read_label(reply: JudgeReply, prompt: str, labels: tuple[str, ...]) -> str | Unread:
    """Return the label on the last line of a reply to ``prompt``; anything else is unread."""
    if reply.prompt != digest_bytes(prompt.encode(errors="surrogatepass")):
        return Unread("the reply answers another prompt than this item's")
    if reply.text is None:
        return Unread(f"the judge gave no reply: {truncate(reply.error)}")
    if len(reply.text) > MAX_REPLY_LENGTH:
        return Unread(f"the reply has {len(reply.text)} characters, more than {MAX_REPLY_LENGTH}")
    mark = f"GRADE {reply.nonce}:"
    lines = [line.strip() for line in reply.text.strip().splitlines()]
    marked = [line for line in lines if mark in line]
    if len(marked) != 1:
        return Unread(f"the reply must have one grade line, got {len(marked)}")
    if lines[-1] != marked[0] or not marked[0].startswith(mark):
        return Unread("the grade line must be the last line, and nothing else on it")
    label = marked[0].removeprefix(mark).strip()
    if label not in labels:
        return Unread(f"the grade must be one of {', '.join(labels)}, got {truncate(label, 40)!r}")
    return label
