"""Prepare imported samples for replay: redact, drop repeats, draw; all counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import UsageError
from gatemark.evidence.inputs import digest_content, group_inputs
from gatemark.evidence.personal_data import personal_data
from gatemark.evidence.rows import Row, Sampling, draw_rows, freeze
from gatemark.evidence.secrets_in_text import secret_kinds
from gatemark.samples.importer import ForeignSample

SHOWN_DIGEST: Final = 16


class Preparation(msgspec.Struct, frozen=True):
    """What to do with samples before they are written.

    ``redact`` replaces every text with personal data or a secret by the kind found and a digest;
    ``dedupe`` keeps the first of samples with the same input; ``answered`` keeps only those with an
    output and no error, so that a replay has something to compare with; ``take`` draws that many;
    with ``stratify``, the values of that tag keep their shares.
    """

    redact: bool = False
    dedupe: bool = False
    answered: bool = False
    take: int | None = None
    seed: int = 0
    stratify: str | None = None


class Prepared(msgspec.Struct, frozen=True):
    """The remaining samples, and counts of the others."""

    samples: tuple[ForeignSample, ...]
    redacted: int
    repeats: int
    not_drawn: int
    unanswered: int = 0


def prepare_samples(samples: Sequence[ForeignSample], wanted: Preparation) -> Prepared:
    """Redact, deduplicate and draw, in this order: private text does not affect the draw."""
    if wanted.stratify is not None and wanted.take is None:
        raise UsageError("--stratify needs --take: how many samples to draw")
    left = list(samples)
    redacted = 0
    if wanted.redact:
        cleaned = [_redact(sample) for sample in left]
        redacted = sum(new != old for new, old in zip(cleaned, left, strict=True))
        left = cleaned
    before = len(left)
    if wanted.answered:
        left = [one for one in left if one.error is None and one.output is not None]
    unanswered = before - len(left)
    before = len(left)
    if wanted.dedupe:
        left = _drop_repeats(left)
    repeats = before - len(left)
    before = len(left)
    if wanted.take is not None:
        left = _draw_samples(left, wanted.take, wanted)
    return Prepared(tuple(left), redacted, repeats, before - len(left), unanswered)


def _redact(sample: ForeignSample) -> ForeignSample:
    error = sample.error
    return msgspec.structs.replace(
        sample,
        id=_redact_name(sample.id),
        input=remove_private(sample.input),
        target=remove_private(sample.target),
        output=remove_private(sample.output),
        tags={name: remove_private(text) for name, text in sample.tags.items()},
        error=None
        if error is None
        else msgspec.structs.replace(error, message=remove_private(error.message)),
    )


def _redact_name(name: str) -> str:
    """Return the id, or its digest if it contains personal data."""
    if not set(personal_data(name)) & {"email", "phone"}:
        return name
    return f"redacted-{digest_bytes(name.encode()).removeprefix('sha256:')[:SHOWN_DIGEST]}"


def remove_private(value: object) -> object:
    """Return the value with every text that has personal data or a secret replaced by a digest."""
    if isinstance(value, str):
        kinds = (*personal_data(value), *secret_kinds(value))
        if not kinds:
            return value
        name = digest_bytes(value.encode(errors="surrogatepass"))[: SHOWN_DIGEST + len("sha256:")]
        return f"[redacted: {', '.join(dict.fromkeys(kinds))}; {name}]"
    if isinstance(value, dict):
        return {remove_private(key): remove_private(item) for key, item in value.items()}
    if isinstance(value, list):
        return [remove_private(item) for item in value]
    return value


def _drop_repeats(samples: Sequence[ForeignSample]) -> list[ForeignSample]:
    inputs = group_inputs([(sample.id, digest_content(sample.input)) for sample in samples])
    seen: set[str] = set()
    kept = []
    for sample in samples:
        if inputs[sample.id] not in seen:
            seen.add(inputs[sample.id])
            kept.append(sample)
    return kept


def _draw_samples(
    samples: Sequence[ForeignSample], take: int, wanted: Preparation
) -> list[ForeignSample]:
    if any(sample.epoch > 1 for sample in samples):
        raise UsageError("--take draws whole items, but these samples have several epochs")
    tag = wanted.stratify
    if tag is not None and not any(tag in sample.tags for sample in samples):
        known = ", ".join(sorted({name for sample in samples for name in sample.tags})) or "none"
        raise UsageError(f"no sample has the tag {tag!r} to stratify by (tags: {known})")
    rows = tuple(Row(id=sample.id, input=None, tags=sample.tags) for sample in samples)
    if take >= len(rows):
        return list(samples)
    drawn = draw_rows(freeze("samples", rows), Sampling(take, wanted.seed, wanted.stratify))
    return [sample for sample in samples if sample.id in drawn.ids]
