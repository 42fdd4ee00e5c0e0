"""Where a policy asks for less than the defaults, and what no policy may loosen."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatemark.evidence.private_text import PrivateTextRules
from gatemark.plugins.advisory.confidence_buckets import BUCKET_RULES, DEFAULT_BUCKET_RULE
from gatemark.plugins.advisory.policy import AdvisoryPolicy, Stability
from gatemark.plugins.advisory.policy_limits import LaneBounds, OverallBounds
from gatemark.plugins.advisory.taxonomy import Taxonomy


def list_loosened(policy: AdvisoryPolicy) -> list[str]:
    """Return the limits that are looser than the defaults, overall and by lane."""
    lanes = {name: policy.bounds(name) for name in sorted(policy.lanes)}
    usual = Stability()
    return [
        *_list_looser("overall", policy.overall, OverallBounds()),
        *_list_looser("lane_defaults", policy.lane_defaults, LaneBounds()),
        *(
            text
            for name, own in lanes.items()
            for text in _list_looser(name, own, policy.lane_defaults)
        ),
        *_list_looser("stability", policy.stability, Stability()),
        *(
            [f"stability.clean_runs_min {policy.stability.clean_runs}, default {usual.runs_min}"]
            if policy.stability.clean_runs < usual.runs_min <= policy.stability.runs_min
            else ()
        ),
        *_list_looser("privacy", policy.privacy, PrivateTextRules()),
        *_list_other_meanings("labels", policy.labels),
        *(
            text
            for name, lane in sorted(policy.lanes.items())
            if lane.labels is not None
            for text in _list_other_meanings(f"{name}.labels", lane.labels)
        ),
    ]


def _list_looser(place: str, own: msgspec.Struct, usual: msgspec.Struct) -> Iterator[str]:
    for name in own.__struct_fields__:
        value, default = getattr(own, name), getattr(usual, name)
        if name == "private_roots":
            yield from (f"{place} leaves out {root}" for root in default if root not in value)
            continue
        if default is None or value == default or name == "alpha":
            continue
        if value is None or name == "proof_required":
            less = bool(default)
        elif name.endswith("_min"):
            less = value < default
        else:
            less = value > default
        if less:
            yield f"{place}.{name} {_spell(value)}, default {_spell(default)}"


def _list_other_meanings(place: str, own: Taxonomy) -> Iterator[str]:
    """Yield labels with unusual meanings: their errors may have another name, or none.

    A missing label is refused when it occurs, so that nothing can hide behind it.
    """
    usual = Taxonomy()
    for label in usual.labels:
        if own.knows(label) and own.kind(label) != usual.kind(label):
            yield f"{place}.{label} means {own.kind(label)}, default {usual.kind(label)}"


def _spell(value: float | bool | None) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def list_untouchable(policy: AdvisoryPolicy) -> list[str]:
    """Return where a policy loosens what no policy may loosen for a candidate.

    That is the scan for private texts, the bucket rules, and what makes runs stable.
    """
    usual = BUCKET_RULES[DEFAULT_BUCKET_RULE]
    return [
        *_list_looser("privacy", policy.privacy, PrivateTextRules()),
        *_list_looser("stability", policy.stability, Stability()),
        *(
            f"bucket_rules.{name} has lower edges than {DEFAULT_BUCKET_RULE}"
            for name, edges in sorted(policy.bucket_rules.items())
            if any(own < default for own, default in zip(edges, usual, strict=True))
        ),
    ]
