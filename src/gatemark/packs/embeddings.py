"""Get vectors from an embedding model, and store them for the scorer ``embedding``.

Each text is sent once per suite and arm, however many items have it. The vectors are stored with
the result, so judging again calls nothing. A text that could not be sent makes the verdict
inconclusive, like any other outage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar, cast

import msgspec

from gatemark.core.canonical import canonical_bytes
from gatemark.core.errors import BadInputError
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.scorers.embedding import NAME, EmbeddingOptions, check_vector, compute_text_key
from gatemark.scorers.scorer import Scorable, scorers
from gatemark.targets.network_specs import OpenAISpec
from gatemark.targets.outcomes import CallOutcome
from gatemark.targets.port import OUTAGES, Call, CallError, ErrorKind, Reply
from gatemark.targets.replies import BadReplyError
from gatemark.targets.spec import TargetSpec

Header = TypeVar("Header")
Line = TypeVar("Line")


class KeptVector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The vector of one text, or why there is none; ``kind`` is set if the call failed."""

    text: str
    vector: str | None = None
    error: str | None = None
    kind: str | None = None


class Embedded(msgspec.Struct, frozen=True):
    """The vectors of some texts, and the digest of the model that returned them."""

    model: str
    vectors: dict[str, KeptVector]

    def outage(self, item: Scorable) -> CallError | None:
        """Return why a vector for an item's texts is missing, or None if none is."""
        for text in list_texts_to_embed(item):
            kept = self.vectors.get(compute_text_key(text))
            if kept is not None and kept.kind is not None:
                return CallError(cast("ErrorKind", kept.kind), kept.error or "no reply")
        return None

    def recorded(self, item: Scorable) -> Scorable:
        """Return an item with the vectors of its texts, as the scorer reads them."""
        keys = [compute_text_key(text) for text in list_texts_to_embed(item)]
        found = {key: msgspec.to_builtins(self.vectors[key]) for key in keys if key in self.vectors}
        return msgspec.structs.replace(item, sample={**item.sample, NAME: found})

    def lines(self) -> bytes:
        """Return the vectors as stored: the model first, then a line per text."""
        rows = [msgspec.to_builtins(self.vectors[key]) for key in sorted(self.vectors)]
        return write_lines({"model": self.model}, *rows)


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: str


def read_embedded(data: bytes, place: str) -> Embedded:
    """Return vectors that were kept; anything else is an error with its line."""
    header, lines = read_lines(data, place, _Header, KeptVector)
    return Embedded("" if header is None else header.model, {line.text: line for line in lines})


def write_lines(*lines: dict[str, object]) -> bytes:
    """Return what was asked of a model as stored: a header, then a line for each."""
    return b"".join(canonical_bytes(line) + b"\n" for line in lines)


def read_lines(
    data: bytes, place: str, header: type[Header], line: type[Line]
) -> tuple[Header | None, list[Line]]:
    """Read such lines again; anything else is an error with its number."""
    first, found = None, []
    for number, text in enumerate(data.splitlines(), start=1):
        try:
            if number == 1:
                first = msgspec.json.decode(text, type=header)
            else:
                found.append(msgspec.json.decode(text, type=line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadInputError(f"{place}:{number}: {error}") from error
    return first, found


def name_vectors(suite: str, arm: str) -> str:
    """Return the name of an arm's answer vectors in a result."""
    return f"{suite}/{arm}.vectors"


def parse_embedding_options(suite: SuiteSpec) -> EmbeddingOptions:
    """Return the options of a suite that scores by an embedding model."""
    assert isinstance(suite.scorer, ScorerSpec)  # noqa: S101 - a suite that is embedded has one
    return cast("EmbeddingOptions", scorers().get(NAME).options_from(suite.scorer.options))


def list_texts_to_embed(item: Scorable) -> tuple[str, ...]:
    """Return the texts whose vectors an item's score needs; none when it cannot be scored."""
    if item.output is None or item.target is None:
        return ()
    try:
        return (item.output_text(), *item.target_texts())
    except BadInputError:
        return ()  # the scorer says why


class EmbeddingSpec(OpenAISpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OpenAI-compatible endpoint that returns the vector of one text."""

    kind: ClassVar[str] = "embedding"

    def address(self) -> str:
        return self.base_url.rstrip("/") + "/embeddings"

    def request(self, _filled: object, call: Call) -> object:
        return {"model": self.model, "input": call.input}

    def read(self, document: object, latency_ms: float, place: str) -> Reply:
        members = document if isinstance(document, dict) else {}
        data = members.get("data")
        first = data[0] if isinstance(data, list) and data else None
        packed = check_vector(first.get("embedding") if isinstance(first, dict) else None)
        if packed is None:
            raise BadReplyError(f"{place}: data.0.embedding must be a list of numbers, not all 0")
        return Reply(packed, latency_ms, model=members.get("model"), usage=members.get("usage"))


def make_embedding_spec(options: EmbeddingOptions) -> TargetSpec:
    """Return the endpoint as a target, with the limits of one."""
    endpoint = EmbeddingSpec(
        base_url=options.base_url,
        model=options.model,
        api_key_env=options.api_key_env,
        headers=options.headers,
    )
    return TargetSpec(
        openai=endpoint,
        timeout_s=options.timeout_s,
        rate_per_s=options.rate_per_s,
        version=options.version,
    )


def make_embedding_calls(items: Iterable[Scorable]) -> list[Call]:
    """Return one call for each different text, in the order of their digests."""
    texts = {compute_text_key(text): text for item in items for text in list_texts_to_embed(item)}
    return [Call(id=key, epoch=1, input=texts[key]) for key in sorted(texts)]


def keep_vector(outcome: CallOutcome) -> KeptVector:
    """Return what is kept of one call."""
    if outcome.reply is not None:
        return KeptVector(outcome.id, vector=str(outcome.reply.output))
    error = outcome.error or CallError("missing", "no reply")
    kind = error.kind if error.kind in OUTAGES else None
    return KeptVector(outcome.id, error=error.message, kind=kind)
