"""Making replay data of imported samples: redact, drop repeats, draw; each counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gatemark.core.canonical import canonical_bytes, digest_bytes
from gatemark.core.dataset import Row, freeze
from gatemark.core.errors import UsageError
from gatemark.core.pack import Sampling
from gatemark.hygiene.personal import personal_data
from gatemark.hygiene.secrets import secret_kinds
from gatemark.intake.dataset import draw
from gatemark.intake.foreign import ForeignSample

SHOWN_DIGEST: Final = 16


class Preparation(msgspec.Struct, frozen=True):
    """What to do with samples before they are written.

    ``redact`` replaces every text that shows personal data or a secret by what it showed and a
    digest; ``dedupe`` keeps the first of samples with the same input; ``take`` draws that many,
    evenly over the values of ``stratify`` when a tag is named.
    """

    redact: bool = False
    dedupe: bool = False
    take: int | None = None
    seed: int = 0
    stratify: str | None = None


class Prepared(msgspec.Struct, frozen=True):
    """The samples that are left, and what became of the others."""

    samples: tuple[ForeignSample, ...]
    redacted: int
    repeats: int
    not_drawn: int


def prepare(samples: Sequence[ForeignSample], wanted: Preparation) -> Prepared:
    """Redact first, so that nothing private decides what is kept."""
    left = list(samples)
    redacted = 0
    if wanted.redact:
        cleaned = [_redacted(sample) for sample in left]
        redacted = sum(new != old for new, old in zip(cleaned, left, strict=True))
        left = cleaned
    before = len(left)
    if wanted.dedupe:
        left = _without_repeats(left)
    repeats = before - len(left)
    before = len(left)
    if wanted.take is not None:
        left = _drawn(left, wanted.take, wanted)
    return Prepared(tuple(left), redacted, repeats, before - len(left))


def _redacted(sample: ForeignSample) -> ForeignSample:
    error = sample.error
    return msgspec.structs.replace(
        sample,
        input=_clean(sample.input),
        target=_clean(sample.target),
        output=_clean(sample.output),
        tags={name: _clean(text) for name, text in sample.tags.items()},
        error=None
        if error is None
        else msgspec.structs.replace(error, message=_clean(error.message)),
    )


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        kinds = (*personal_data(value), *secret_kinds(value))
        if not kinds:
            return value
        name = digest_bytes(value.encode(errors="surrogatepass"))[: SHOWN_DIGEST + len("sha256:")]
        return f"[redacted: {', '.join(dict.fromkeys(kinds))}; {name}]"
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value


def _without_repeats(samples: Sequence[ForeignSample]) -> list[ForeignSample]:
    seen: set[bytes] = set()
    kept = []
    for sample in samples:
        key = canonical_bytes(sample.input)
        if key not in seen:
            seen.add(key)
            kept.append(sample)
    return kept


def _drawn(samples: Sequence[ForeignSample], take: int, wanted: Preparation) -> list[ForeignSample]:
    if any(sample.epoch > 1 for sample in samples):
        raise UsageError("a draw takes whole items: these samples hold several epochs")
    rows = tuple(Row(id=sample.id, input=None, tags=sample.tags) for sample in samples)
    if take >= len(rows):
        return list(samples)
    drawn = draw(freeze("samples", rows), Sampling(take, wanted.seed, wanted.stratify))
    return [sample for sample in samples if sample.id in drawn.ids]
