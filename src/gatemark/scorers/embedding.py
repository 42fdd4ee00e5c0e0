"""Similarity of meaning: cosine similarity of the embedding vectors of two texts.

The model is called while a pack runs, and its vectors are stored with the result. This scorer only
reads stored vectors, so that the score can be derived again without any call.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    Scorer,
    find_best_target,
    scored,
    truncate,
    unscored,
    with_options,
)

NAME: Final = "embedding"
MAX_DIMENSIONS: Final = 65_536


class EmbeddingOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    base_url: Annotated[str, about("Address before `/embeddings`, mostly ending in `/v1`.")]
    model: Annotated[str, about("Name of the embedding model.")]
    at_least: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1)] | None,
        about("Similarity that counts as right; without it the similarity itself is the score."),
    ] = None
    api_key_env: Annotated[str | None, about("Environment variable that holds the API key.")] = None
    headers: Annotated[dict[str, str], about("Headers of every request; never a secret.")] = {}
    timeout_s: Annotated[float, msgspec.Meta(gt=0, description="Seconds for one call.")] = 60.0
    rate_per_s: Annotated[float | None, about("Maximum number of calls per second.")] = None
    version: Annotated[
        str | None, about("Name of the version behind the address; `--cache` needs it.")
    ] = None


def compute_text_key(text: str) -> str:
    """Return the key that a text's vector is stored under."""
    return digest_bytes(text.encode(errors="surrogatepass"))


def pack_vector(numbers: Sequence[float]) -> str:
    """Return a vector as it is stored: 32-bit numbers in base64."""
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode("ascii")


def unpack_vector(text: str) -> tuple[float, ...]:
    """Return the numbers of a stored vector."""
    try:
        data = base64.b64decode(text, validate=True)
        return struct.unpack(f"<{len(data) // 4}f", data)
    except (binascii.Error, struct.error, ValueError) as error:
        raise BadInputError(f"a recorded vector is not readable: {error}") from error


def check_vector(value: object) -> str | None:
    """Return a model's vector packed, or None if it is not a vector."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_DIMENSIONS:
        return None
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in value):
        return None
    try:
        packed = pack_vector([float(one) for one in value])
    except (OverflowError, struct.error):
        return None
    numbers = unpack_vector(packed)
    return packed if all(map(math.isfinite, numbers)) and any(numbers) else None


def cosine_similarity(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, the same on every machine."""
    if len(first) != len(second):
        raise BadInputError(f"vectors of {len(first)} and {len(second)} numbers do not compare")
    norms = [math.sqrt(math.fsum(x * x for x in vector)) for vector in (first, second)]
    if not all(norms):
        raise BadInputError("a vector of zeros has no direction")
    dot = math.fsum(x * y for x, y in zip(first, second, strict=True))
    return dot / (norms[0] * norms[1])


def _score(options: EmbeddingOptions, item: Scorable) -> Score:
    recorded = item.sample.get(NAME)
    if not isinstance(recorded, Mapping):
        return unscored("the sample has no recorded vectors")
    output = _unpack_recorded(recorded, item.output_text(), "output")
    best, closest = find_best_target(
        item, lambda target: cosine_similarity(output, _unpack_recorded(recorded, target, "target"))
    )
    # Opposite meanings score no better than unrelated ones.
    similarity = min(1.0, max(0.0, best))
    value = similarity if options.at_least is None else float(similarity >= options.at_least)
    return scored(value, similarity=f"{best:.6f}", closest_target=closest)


def _unpack_recorded(recorded: Mapping[str, object], text: str, subject: str) -> tuple[float, ...]:
    kept = recorded.get(compute_text_key(text))
    if not isinstance(kept, Mapping):
        raise BadInputError(f"no vector of the {subject} was recorded")
    if not isinstance(kept.get("vector"), str):
        raise BadInputError(f"the {subject} has no vector: {truncate(kept.get('error'))}")
    return unpack_vector(str(kept["vector"]))


def _make_sample(**vectors: Sequence[float]) -> dict[str, object]:
    kept = {compute_text_key(text): {"vector": pack_vector(v)} for text, v in vectors.items()}
    return {NAME: kept}


_OPTIONS: Final = {"base_url": "http://127.0.0.1:11434/v1", "model": "example"}

SCORER = Scorer(
    name=NAME,
    summary="Similarity of meaning: cosine of the vectors of an embedding model; best target.",
    options=EmbeddingOptions,
    build=with_options(_score),
    known=(
        KnownScore(
            "an angle of 60 degrees",
            0.5,
            target="boat",
            output="ship",
            sample=_make_sample(boat=[2, 0], ship=[0.5, 0.75**0.5]),
            options=_OPTIONS,
            tolerance=1e-7,
        ),
        KnownScore(
            "at least 0.4 counts as right",
            1.0,
            target="boat",
            output="ship",
            sample=_make_sample(boat=[2, 0], ship=[0.5, 0.75**0.5]),
            options={**_OPTIONS, "at_least": 0.4},
        ),
        KnownScore(
            "the closest of two targets",
            1.0,
            target=["tree", "boat"],
            output="ship",
            sample=_make_sample(boat=[0, 3], ship=[0, 1], tree=[1, 0]),
            options=_OPTIONS,
        ),
        KnownScore(
            "opposite directions",
            0.0,
            target="boat",
            output="ship",
            sample=_make_sample(boat=[1, 0], ship=[-1, 0]),
            options=_OPTIONS,
        ),
        KnownScore(
            "vectors of two models",
            None,
            target="boat",
            output="ship",
            sample=_make_sample(boat=[1, 0, 0], ship=[1, 0]),
            options=_OPTIONS,
        ),
        KnownScore("nothing recorded", None, "boat", "ship", options=_OPTIONS),
    ),
)
