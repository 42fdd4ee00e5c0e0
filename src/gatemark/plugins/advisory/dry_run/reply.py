"""Reduce a service's reply to what may be recorded.

A reply that breaks the protocol does not count as an answer. Labels, severities, numbers and short
codes are kept; every other text is dropped. Conduct is judged from the whole reply: whether it asks
for authority, claims to have acted, repeats its input, or contains secrets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_args

import msgspec

from gatemark.plugins.advisory.category import SEVERITY_ORDER
from gatemark.plugins.advisory.dry_run.envelope import find_nested_flags, find_requested_flags
from gatemark.plugins.advisory.dry_run.leaks import PAYLOAD, Leak, find_leaks
from gatemark.plugins.advisory.record import ActionKind, FallbackKind, Severity
from gatemark.plugins.advisory.taxonomy import Taxonomy

MAX_CODES: Final = 16
HEALTHY: Final = "healthy"
"""The reason of a health probe that was answered well: nothing was recommended."""
MAX_DELTA_US: Final = 2**53 - 1
FALLBACK_KINDS: Final[tuple[FallbackKind, ...]] = get_args(FallbackKind)
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
_REFERENCE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}:[A-Za-z0-9_.-]{1,64}\Z")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,95}\Z")
_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})\Z")
_DEVICE: Final = re.compile(r"(?:CPU|GPU|NPU)(?:\.\d{1,2})?\Z")
_PRECISION: Final = re.compile(r"(?:b?f|bfloat|float|fp|u?int|i|u)\d{1,2}\Z", re.IGNORECASE)
WITHHELD: Final = "withheld"
"""The reason code of a fallback whose own reason must not be recorded."""
ABSENT_NPU: Final = frozenset({"npu_absent", "cpu_requested"})
"""The reasons by which a service reports that there is no NPU."""
ACTION_KINDS: Final[frozenset[str]] = frozenset(get_args(ActionKind))


class Conduct(msgspec.Struct, frozen=True):
    """How a service behaved, whatever it recommended.

    ``leaks`` names the fields of its reply that repeat the payload or contain secrets.
    """

    requested: frozenset[str] = frozenset()
    acted: bool = False
    leaks: tuple[Leak, ...] = ()

    @property
    def echoed(self) -> bool:
        """Whether the reply contains a part of the payload."""
        return any(leak.kind == PAYLOAD for leak in self.leaks)


class ReportedFallback(msgspec.Struct, frozen=True):
    """A fallback that the service reported; a reason that is not a code is None."""

    kind: FallbackKind
    reason: str | None


class Advice(msgspec.Struct, frozen=True):
    """A usable recommendation. What the service did not report is None."""

    label: str
    severity: Severity
    score: float | None
    conduct: Conduct = Conduct()
    reasons: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    model: str | None = None
    model_digest: str | None = None
    device: str | None = None
    precision: str | None = None
    inference_ran: bool = False
    busy_delta_us: int | None = None
    service_ms: float | None = None
    queue_ms: float | None = None
    fallback: ReportedFallback | None = None
    dropped: tuple[str, ...] = ()


class NoAdvice(msgspec.Struct, frozen=True):
    """The code for why there is no usable recommendation."""

    reason: str
    conduct: Conduct = Conduct()
    timeout: bool = False


def read_reply(reply: object, payload: object, taxonomy: Taxonomy) -> Advice | NoAdvice:
    """Return the content of a service's reply to ``payload``, without anything that leaks."""
    found = _read(reply, taxonomy)
    return withhold(found, reply, payload)


def withhold(found: Advice | NoAdvice, reply: object, payload: object) -> Advice | NoAdvice:
    """Return an answer without the texts that repeat the payload or contain secrets."""
    kept = _list_kept_texts(found) if isinstance(found, Advice) else {}
    leaks = find_leaks(reply, payload, kept)
    if not leaks:
        return found
    all_leaks = tuple(sorted({*found.conduct.leaks, *leaks}))
    conduct = msgspec.structs.replace(found.conduct, leaks=all_leaks)
    if isinstance(found, NoAdvice):
        return msgspec.structs.replace(found, conduct=conduct)
    # A payload may be spread over fields; a secret is in the field that has it.
    lost = set(kept) if conduct.echoed else {leak.field for leak in leaks} & set(kept)
    return msgspec.structs.replace(_drop_fields(found, lost), conduct=conduct)


def _list_kept_texts(advice: Advice) -> dict[str, Sequence[str]]:
    """Return the texts of an answer that would be recorded, by field."""
    reason = advice.fallback.reason if advice.fallback else None
    single = {
        "model": advice.model,
        "model_digest": None if _is_digest(advice.model_digest) else advice.model_digest,
        "device": None if _DEVICE.match(advice.device or "") else advice.device,
        "precision": None if _PRECISION.match(advice.precision or "") else advice.precision,
        "fallback": None if reason in ABSENT_NPU else reason,
    }
    named: dict[str, Sequence[str]] = {name: (text,) for name, text in single.items() if text}
    return {"reasons": advice.reasons, "evidence_refs": advice.evidence_refs, **named}


def _drop_fields(advice: Advice, fields: set[str]) -> Advice:
    """Return an answer without the texts of some fields."""
    changes: dict[str, Any] = {
        name: () if name in ("reasons", "evidence_refs") else None
        for name in fields
        if getattr(advice, name)
    }
    if "fallback" in changes and advice.fallback is not None:
        changes["fallback"] = msgspec.structs.replace(advice.fallback, reason=WITHHELD)
    dropped = dict.fromkeys((*advice.dropped, *sorted(changes)))
    return msgspec.structs.replace(advice, **changes, dropped=tuple(dropped))


def _read(reply: object, taxonomy: Taxonomy) -> Advice | NoAdvice:
    if not isinstance(reply, Mapping):
        return NoAdvice("reply_not_an_object")
    conduct = Conduct(requested=_find_requested(reply), acted=_has_acted(reply))
    label, severity = reply.get("label"), reply.get("severity")
    if not isinstance(label, str) or not taxonomy.knows(label):
        return NoAdvice("label_outside_taxonomy", conduct)
    if severity not in SEVERITY_ORDER:
        return NoAdvice("severity_unknown", conduct)
    score = reply.get("confidence")
    if score is not None and not _is_share(score):
        return NoAdvice("confidence_out_of_range", conduct)
    fallback = _read_fallback(reply.get("fallback"))
    if isinstance(fallback, str):
        return NoAdvice(fallback, conduct)
    dropped: list[str] = []
    return Advice(
        label=label,
        severity=severity,
        score=None if score is None else float(score),
        conduct=conduct,
        reasons=_keep_codes(reply, "reasons", _CODE, dropped),
        evidence_refs=_keep_codes(reply, "evidence_refs", _REFERENCE, dropped),
        model=_read_name(reply, "model", dropped),
        model_digest=_normalize_digest(_read_name(reply, "model_digest", dropped)),
        device=_read_name(reply, "device", dropped),
        precision=_read_name(reply, "precision", dropped),
        inference_ran=reply.get("inference_ran") is True,
        busy_delta_us=_read_whole_number(reply, "npu_busy_delta_us", dropped),
        service_ms=_read_duration(reply, "service_ms", dropped),
        queue_ms=_read_duration(reply, "queue_ms", dropped),
        fallback=fallback,
        dropped=tuple(dropped),
    )


def read_health(reply: object) -> NoAdvice:
    """Return the outcome of a health probe; a probe never has advice."""
    if not isinstance(reply, Mapping):
        return NoAdvice("reply_not_an_object")
    conduct = Conduct(requested=_find_requested(reply), acted=_has_acted(reply))
    return NoAdvice(HEALTHY if reply.get("status") == "ok" else "not_healthy", conduct)


def _find_requested(reply: Mapping[str, object]) -> frozenset[str]:
    """Return what a reply asks for at its top level, and the open flags anywhere below."""
    return find_requested_flags(dict(reply)) | find_nested_flags(reply)


def _has_acted(reply: Mapping[str, object]) -> bool:
    """Whether a reply claims to have acted, at its top level or as in the record's schema."""
    inner = reply.get("actual_action")
    places = [reply, inner] if isinstance(inner, Mapping) else [reply]
    kind = inner.get("kind") if isinstance(inner, Mapping) else inner
    if kind is not None and (not isinstance(kind, str) or kind not in ACTION_KINDS):
        return True
    return any(
        place.get("performed") not in (None, False) or bool(place.get("side_effects"))
        for place in places
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _read_fallback(value: Any) -> ReportedFallback | str | None:
    if value is None:
        return None
    kind = value.get("kind") if isinstance(value, Mapping) else None
    for known in FALLBACK_KINDS:
        if kind == known:
            reason = value.get("reason")
            good = isinstance(reason, str) and _CODE.match(reason)
            return ReportedFallback(known, reason if good else None)
    return "fallback_kind_unknown"


def _keep_codes(
    reply: Mapping[str, object], name: str, pattern: re.Pattern[str], dropped: list[str]
) -> tuple[str, ...]:
    """Return the texts of a list that are codes; dropped ones are noted, never repeated."""
    given = reply.get(name)
    texts: Iterable[object] = given if isinstance(given, list | tuple) else ()
    kept = [text for text in texts if isinstance(text, str) and pattern.match(text)][:MAX_CODES]
    if given is not None and kept != list(texts):
        dropped.append(name)
    return tuple(kept)


def _read_name(reply: Mapping[str, object], name: str, dropped: list[str]) -> str | None:
    given = reply.get(name)
    if isinstance(given, str) and _NAME.match(given):
        return given
    if given is not None:
        dropped.append(name)
    return None


def _is_digest(text: str | None) -> bool:
    return text is not None and _DIGEST.match(text) is not None


def _normalize_digest(text: str | None) -> str | None:
    """Return a digest prefixed with its method, if it has none."""
    found = _DIGEST.match(text or "")
    return f"sha256:{found.group(1).lower()}" if found else text


def _read_duration(reply: Mapping[str, object], name: str, dropped: list[str]) -> float | None:
    given: Any = reply.get(name)
    if _is_number(given) and math.isfinite(given) and given >= 0:
        return float(given)
    if given is not None:
        dropped.append(name)
    return None


def _read_whole_number(reply: Mapping[str, object], name: str, dropped: list[str]) -> int | None:
    given = reply.get(name)
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MAX_DELTA_US:
        return given
    if given is not None:
        dropped.append(name)
    return None
