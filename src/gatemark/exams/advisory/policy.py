"""The advisory policy: limits overall and per lane, meanings of labels, private content.

Its defaults are the source document's thresholds. A lane can become a candidate only if the policy
names it, with a scope that a person approved, a rollback plan and a reviewer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal, get_args

import msgspec

from gatemark.core.canonical import digest, original_fields
from gatemark.core.errors import InvalidValueError
from gatemark.core.policy import Rule
from gatemark.evidence.hygiene import PrivateTextRules
from gatemark.exams.advisory.decision import (
    BUCKET_RULES,
    DEFAULT_BUCKET_RULE,
    ERROR_CATEGORIES,
    LABEL_PATTERN,
    NAME_PATTERN,
    Bucket,
    Comparison,
    ComparisonError,
    Edges,
    ErrorType,
    InputSource,
    Mode,
    Recommendation,
    Reference,
    ReferenceSource,
    Severity,
)
from gatemark.exams.advisory.limits import (
    COMPARABLE_MIN,
    LIMITS,
    OVERALL_METRICS,
    LaneBounds,
    OverallBounds,
    Share,
)

Category = Literal[
    "agree", "disagree", ComparisonError, "uncertain", "missing_reference", "not_applicable"
]
LabelKind = Literal["no_op", "action", "deferred"]
LABEL_KINDS: Final[tuple[LabelKind, ...]] = get_args(LabelKind)

CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)
COMPARABLE: Final[tuple[Category, ...]] = CATEGORIES[:6]
"""The six categories that make up the denominator of the agreement rate."""
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
HIGH_SEVERITIES: Final[frozenset[str]] = frozenset(("high", "critical"))
UNCERTAIN_BUCKETS: Final[frozenset[str]] = frozenset(("very_low", "low", "unknown"))
_RANK: Final = {severity: rank for rank, severity in enumerate(SEVERITIES)}


class Taxonomy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The meanings of a lane's labels. A label in none of the three kinds is refused.

    ``aliases`` maps a label to the one it is compared as.
    """

    no_op: tuple[str, ...] = ("suppress", "no_action", "log", "skip_private_root")
    action: tuple[str, ...] = ("escalate", "retrieve_more_context", "summarize")
    deferred: tuple[str, ...] = ("needs_human", "unknown")
    aliases: dict[str, str] = {}

    def __post_init__(self) -> None:
        known = self.labels
        twice = sorted({label for label in known if known.count(label) > 1})
        if twice:
            raise InvalidValueError(f"label {twice[0]!r} has more than one meaning")
        if not (self.no_op and self.action and self.deferred):
            raise InvalidValueError("a taxonomy needs no_op, action and deferred labels")
        for alias, label in self.aliases.items():
            if label not in known:
                raise InvalidValueError(
                    f"alias {alias!r} stands for {label!r}, which has no meaning"
                )
            if alias in known:
                raise InvalidValueError(f"label {alias!r} has a meaning and is an alias too")

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label with its own meaning."""
        return (*self.no_op, *self.action, *self.deferred)

    def knows(self, label: str) -> bool:
        """Whether a label may be used in the lane."""
        return label in self.aliases or label in self.labels

    def normal(self, label: str) -> str:
        """Return the label that this one is compared as."""
        return self.aliases.get(label, label)

    def kind(self, label: str) -> LabelKind:
        """Return the meaning of a label."""
        normal = self.normal(label)
        for kind in LABEL_KINDS:
            if normal in getattr(self, kind):
                return kind
        raise InvalidValueError(f"a label must be one of {', '.join(self.labels)}")


DEFAULT_TAXONOMY: Final = Taxonomy()


class CategoryKey(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Everything that the category of a record depends on."""

    label: str
    severity: Severity
    bucket: Bucket
    reference_source: ReferenceSource
    reference_label: str | None
    reference_severity: Severity | None
    applicable: bool


def category_key(
    source: InputSource, mode: Mode, advice: Recommendation, bucket: Bucket, reference: Reference
) -> CategoryKey:
    """Return what the category of a record depends on; a health probe recommends nothing."""
    return CategoryKey(
        label=advice.label,
        severity=advice.severity,
        bucket=bucket,
        reference_source=reference.source,
        reference_label=reference.label or None,
        reference_severity=reference.severity or None,
        applicable=source.kind != "service_health_probe" and mode != "health_only",
    )


def category_of(
    parts: CategoryKey, taxonomy: Taxonomy = DEFAULT_TAXONOMY, version: int = 2
) -> Category:
    """Return the category of a record.

    An Atlas decision is a signal, not ground truth: such a record has no reference, and
    ``signal_of`` returns the category by the signal.
    """
    if parts.applicable and parts.reference_source == "atlas_shadow":
        return "missing_reference"
    return signal_of(parts, taxonomy, version)


def signal_of(
    parts: CategoryKey, taxonomy: Taxonomy = DEFAULT_TAXONOMY, version: int = 2
) -> Category:
    """Return the category by the reference of the record, including an Atlas decision.

    Since version 2 of the rules, not acting when a person was needed is a missed action.
    """
    if not parts.applicable:
        return "not_applicable"
    if parts.reference_source == "missing" or parts.reference_label is None:
        return "missing_reference"
    kind = taxonomy.kind(parts.label)
    reference_kind = taxonomy.kind(parts.reference_label)
    if parts.bucket in UNCERTAIN_BUCKETS or kind == "deferred":
        return "uncertain"
    if taxonomy.normal(parts.label) != taxonomy.normal(parts.reference_label):
        if (kind, reference_kind) == ("action", "no_op"):
            return "false_positive"
        needed = needs_action(parts.reference_label, taxonomy, version)
        if kind == "no_op" and needed:
            return "false_negative"
        return "disagree"
    if parts.reference_severity is None:
        return "agree"
    apart = _RANK[parts.severity] - _RANK[parts.reference_severity]
    if abs(apart) <= 1:
        return "agree"
    return "severity_overcall" if apart > 0 else "severity_undercall"


def needs_action(reference: str, taxonomy: Taxonomy, version: int) -> bool:
    """Whether a reference requires action, or since version 2 a person."""
    kind = taxonomy.kind(reference)
    return kind == "action" or (
        version > 1 and kind == "deferred" and taxonomy.normal(reference) != "unknown"
    )


def outcome_of(category: Category) -> tuple[Comparison, ErrorType | None]:
    """Return how a record states its category: the comparison, and the error type."""
    match category:
        case "false_positive" | "false_negative" | "severity_overcall" | "severity_undercall":
            return "disagree", category
        case _:
            return category, None


def is_stated(category: Category, comparison: str, error_type: str | None) -> bool:
    """Whether an outcome states this category.

    Another error type (such as ``unsafe_authority``) may replace the one that names the category: a
    record has room for one.
    """
    wanted, named = outcome_of(category)
    if comparison != wanted:
        return False
    return error_type == named or (error_type is not None and error_type not in ERROR_CATEGORIES)


def lane_name(input_class: str, service: str) -> str:
    """Return the name of a lane: its kind of input and its service."""
    return f"{input_class}/{service}"


PLACEHOLDERS: Final = frozenset(
    ("", "tbd", "tba", "todo", "n/a", "na", "none", "null", "nobody", "unknown", "pending", "xxx")
)
LANES_MAX: Final = 1_000
_NAME: Final = re.compile(NAME_PATTERN)
_LABEL: Final = re.compile(LABEL_PATTERN)

Text = Annotated[str, msgspec.Meta(pattern=r"\S", max_length=2_000)]


class Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What people must have settled before a lane can be discussed."""

    scope: Text
    approved_by: Text
    rollback_plan: Text
    reviewer: Text

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            said = getattr(self, name).strip(" .?!-_").casefold()
            if said in PLACEHOLDERS:
                raise InvalidValueError(f"promotion.{name} must be filled in, not a placeholder")


class LanePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy of one lane. Missing limits are those of ``lane_defaults``.

    ``smaller_scope`` says why there can be fewer than thirty comparable records.
    """

    promotion: Promotion | None = None
    smaller_scope: Text | None = None
    bounds: dict[str, float | int | bool | None] = {}
    labels: Taxonomy | None = None


@original_fields("runs_min shift_max alpha")
class Stability(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When the distribution over confidence buckets counts as stable over runs.

    Stable: over ``runs_min`` runs, none is further than ``shift_max`` (total variation distance)
    from the others together. Unstable: further, and unlikely by chance at ``alpha``. After a failed
    run, ``clean_runs_min`` clean ones in a row are needed (default: ``runs_min``).
    """

    runs_min: Annotated[int, msgspec.Meta(ge=2)] = 3
    shift_max: Share = 0.10
    alpha: Annotated[float, msgspec.Meta(gt=0, lt=0.5)] = 0.05
    clean_runs_min: Annotated[int, msgspec.Meta(ge=1)] | None = None

    @property
    def clean_runs(self) -> int:
        """How many clean runs in a row make up for a failed one."""
        return self.runs_min if self.clean_runs_min is None else self.clean_runs_min


class AdvisoryPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that an advisory run is judged by, identified by one digest."""

    gatemark_advisory: Literal[1] = 1
    name: Text = "advisory defaults"
    overall: OverallBounds = OverallBounds()
    lane_defaults: LaneBounds = LaneBounds()
    lanes: dict[str, LanePolicy] = {}
    stability: Stability = Stability()
    labels: Taxonomy = Taxonomy()
    bucket_rules: dict[str, Edges] = msgspec.field(default_factory=BUCKET_RULES.copy)
    privacy: PrivateTextRules = PrivateTextRules()

    def __post_init__(self) -> None:
        problems = [*self._lane_problems(), *self._label_problems(), *self._bucket_problems()]
        if problems:
            raise InvalidValueError("; ".join(problems))

    def _lane_problems(self) -> list[str]:
        found = []
        if len(self.lanes) > LANES_MAX:
            found.append(f"names more than {LANES_MAX} lanes")
        for name, lane in self.lanes.items():
            parts = name.split("/")
            if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in parts):
                found.append(f"lane {name!r} must be written input_class/service")
            try:
                bounds = self.bounds(name)
            except msgspec.ValidationError as error:
                found.append(f"lane {name!r}: {error}")
                continue
            if bounds.comparable_records_min < COMPARABLE_MIN and lane.smaller_scope is None:
                found.append(
                    f"lane {name!r}: comparable_records_min must be >= {COMPARABLE_MIN} "
                    f"without a smaller_scope, got {bounds.comparable_records_min}"
                )
            if not math.isfinite(bounds.p95_total_ms_max or 0):
                found.append(f"lane {name!r}: p95_total_ms_max must be finite")
        if not math.isfinite(self.lane_defaults.p95_total_ms_max or 0):
            found.append("lane_defaults.p95_total_ms_max must be finite")
        if self.lane_defaults.comparable_records_min < COMPARABLE_MIN:
            found.append(f"lane_defaults.comparable_records_min must be >= {COMPARABLE_MIN}")
        return found

    def _label_problems(self) -> list[str]:
        taxonomies = [self.labels, *(lane.labels for lane in self.lanes.values() if lane.labels)]
        return [
            f"label {label!r} does not match {LABEL_PATTERN}"
            for taxonomy in taxonomies
            for label in (*taxonomy.labels, *taxonomy.aliases)
            if not _LABEL.fullmatch(label)
        ]

    def _bucket_problems(self) -> list[str]:
        found = [
            f"bucket rule {name!r} must rise inside [0, 1]"
            for name, edges in self.bucket_rules.items()
            if not (0 <= edges[0] < edges[1] < edges[2] < edges[3] <= 1)
            or not all(map(math.isfinite, edges))
        ]
        found.extend(
            f"bucket rule {name!r} is fixed and cannot be redefined"
            for name, edges in BUCKET_RULES.items()
            if self.bucket_rules.get(name, edges) != edges
        )
        return found

    def bounds(self, lane: str) -> LaneBounds:
        """Return the limits of one lane."""
        named = self.lanes.get(lane)
        if named is None or not named.bounds:
            return self.lane_defaults
        return msgspec.convert(
            {**msgspec.to_builtins(self.lane_defaults), **named.bounds}, LaneBounds
        )

    def taxonomy(self, lane: str) -> Taxonomy:
        """Return the meanings of one lane's labels."""
        named = self.lanes.get(lane)
        return self.labels if named is None or named.labels is None else named.labels

    @property
    def digest(self) -> str:
        """The digest of the whole policy."""
        return digest(self)

    @property
    def reading_digest(self) -> str:
        """The digest of what determines how records are read; limits are not part of it."""
        own = {name: lane.labels for name, lane in self.lanes.items() if lane.labels is not None}
        return digest([self.labels, own, self.bucket_rules, self.privacy])


def loosened(policy: AdvisoryPolicy) -> list[str]:
    """Return the limits that are looser than the defaults, overall and by lane."""
    lanes = {name: policy.bounds(name) for name in sorted(policy.lanes)}
    usual = Stability()
    return [
        *_looser("overall", policy.overall, OverallBounds()),
        *_looser("lane_defaults", policy.lane_defaults, LaneBounds()),
        *(text for name, own in lanes.items() for text in _looser(name, own, policy.lane_defaults)),
        *_looser("stability", policy.stability, Stability()),
        *(
            [f"stability.clean_runs_min {policy.stability.clean_runs}, default {usual.runs_min}"]
            if policy.stability.clean_runs < usual.runs_min <= policy.stability.runs_min
            else ()
        ),
        *_looser("privacy", policy.privacy, PrivateTextRules()),
        *_other_meanings("labels", policy.labels),
        *(
            text
            for name, lane in sorted(policy.lanes.items())
            if lane.labels is not None
            for text in _other_meanings(f"{name}.labels", lane.labels)
        ),
    ]


def _looser(place: str, own: msgspec.Struct, usual: msgspec.Struct) -> Iterator[str]:
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
            yield f"{place}.{name} {_spelled(value)}, default {_spelled(default)}"


def _other_meanings(place: str, own: Taxonomy) -> Iterator[str]:
    """Yield labels with unusual meanings: their errors may have another name, or none.

    A missing label is refused when it occurs, so that nothing can hide behind it.
    """
    usual = Taxonomy()
    for label in usual.labels:
        if own.knows(label) and own.kind(label) != usual.kind(label):
            yield f"{place}.{label} means {own.kind(label)}, default {usual.kind(label)}"


def _spelled(value: float | bool | None) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


OTHER_LANES = "advisory.other_lanes"
NEVER_EXCUSED = frozenset(("advisory.authority", "advisory.side_effects", "advisory.privacy"))
"""What keeps every lane from being discussed even when a waiver lets the run pass."""
ALSO_NEVER_EXCUSED = frozenset(("advisory.outcomes", "advisory.stated_blockers"))
DATA_QUALITY = frozenset(
    ("comparable", "cases", "references", "stability", "inputs", "history", "fixtures")
)
"""The rules of every lane that no waiver excuses either, since version 2 of the rules."""


def never_excused(rule: str, lane: str | None, version: int) -> bool:
    """Whether a rule keeps lanes from being discussed even if it is waived."""
    if rule in NEVER_EXCUSED:
        return True
    if version == 1:
        return False
    return rule in ALSO_NEVER_EXCUSED or rule.removeprefix(f"{lane}.") in DATA_QUALITY


def untouchable(policy: AdvisoryPolicy) -> list[str]:
    """Return where a policy loosens what no policy may loosen for a candidate.

    That is the scan for private texts, the bucket rules, and what makes runs stable.
    """
    usual = BUCKET_RULES[DEFAULT_BUCKET_RULE]
    return [
        *_looser("privacy", policy.privacy, PrivateTextRules()),
        *_looser("stability", policy.stability, Stability()),
        *(
            f"bucket_rules.{name} has lower edges than {DEFAULT_BUCKET_RULE}"
            for name, edges in sorted(policy.bucket_rules.items())
            if any(own < default for own, default in zip(edges, usual, strict=True))
        ),
    ]


FIRST_RULES: Final = 1
RULES: Final = 4
"""The version of the rules: 1 took earlier runs from summaries and counted records as inputs.

Until 2, every lane was asked for the bounds in ``ASKED_OVERALL``; since 3 all lanes together are.
Until 3, only names had to have one reference, and inputs of a shadow were counted like fixtures.
"""
RulesVersion = Literal[1, 2, 3, 4]
ASKED_OVERALL: Final = {
    "false_positives": "false_positive_rate_max",
    "uncertain": "uncertain_rate_max",
}
"""Rules that the overall bounds ask, and the bound by which a policy asks them of a lane too."""


def asked_overall(policy: AdvisoryPolicy, lane: str, version: int) -> frozenset[str]:
    """Return the rules that apply only to all lanes together.

    A policy asks more of a lane by naming the limit in its entry, or another one for all lanes.
    """
    if version < 3:
        return frozenset()
    named = policy.lanes.get(lane)
    usual, own = LaneBounds(), policy.lane_defaults
    return frozenset(
        rule
        for rule, bound in ASKED_OVERALL.items()
        if (named is None or bound not in named.bounds)
        and getattr(own, bound) == getattr(usual, bound)
    )


def all_rules(
    policy: AdvisoryPolicy, version: RulesVersion = FIRST_RULES, *, pinned: bool = False
) -> tuple[Rule, ...]:
    """Return global blockers, overall limits, and the rules of named and of all other lanes."""
    return (
        *global_rules(),
        *overall_rules(policy.overall),
        Rule(OTHER_LANES, "other_lanes_below_count", "<=", 0),
        *(
            rule
            for lane in sorted(policy.lanes)
            for rule in (
                *lane_rules(policy, lane, version),
                *input_rules(lane, version, pinned=pinned),
            )
        ),
    )


def input_rules(lane: str, version: RulesVersion, *, pinned: bool) -> Iterator[Rule]:
    """Yield the rules on a lane's inputs and on its earlier runs."""
    if version == FIRST_RULES:
        return
    yield Rule(f"{lane}.inputs", "input_conflict_count", "<=", 0, lane=lane, severity="hold")
    yield Rule(f"{lane}.history", "failed_run_count", "<=", 0, lane=lane, severity="hold")
    if pinned:
        name = "fixture_difference_count"
        yield Rule(f"{lane}.fixtures", name, "<=", 0, lane=lane, severity="hold")


def global_rules() -> tuple[Rule, ...]:
    """Return the rules that block every lane at any rate of agreement."""
    return (
        Rule("advisory.authority", "authority_flag_violation_count", "<=", 0),
        Rule("advisory.side_effects", "actual_side_effect_count", "<=", 0),
        Rule("advisory.privacy", "privacy_violation_count", "<=", 0),
        Rule("advisory.stated_blockers", "unexplained_blocker_count", "<=", 0),
        Rule("advisory.fallback_reasons", "fallback_without_reason_count", "<=", 0),
        Rule("advisory.outcomes", "outcome_mismatch_count", "<=", 0, severity="hold"),
    )


def _limits(
    bounds: OverallBounds,
) -> Iterator[tuple[str, str, Literal["<=", ">="], float]]:
    """Yield name, metric, operator and bound of every limit that is set."""
    for name, metric, limit in LIMITS:
        bound = getattr(bounds, limit, None)
        if bound is not None:
            yield name, metric, ">=" if limit.endswith("_min") else "<=", bound


def overall_rules(bounds: OverallBounds) -> tuple[Rule, ...]:
    """Return the limits for all records together as rules."""
    return tuple(
        Rule(f"advisory.{name}", OVERALL_METRICS.get(name, metric), op, bound)
        for name, metric, op, bound in _limits(bounds)
    )


def lane_rules(policy: AdvisoryPolicy, lane: str, version: int) -> tuple[Rule, ...]:
    """Return the limits of one lane as rules; those that do not apply are left out."""
    bounds, left_out = policy.bounds(lane), set(asked_overall(policy, lane, version))
    if bounds.conservative:
        left_out.add("uncertain")
    if not bounds.proof_required:
        left_out.add("proof")
    limits = (
        *_limits(bounds),
        ("cases", "missing_case_kind_count", "<=", 0),
        ("references", "missing_reference_count", "<=", 0),
        ("stability", "bucket_shift", "<=", policy.stability.shift_max),
    )
    return tuple(
        Rule(f"{lane}.{name}", metric, op, bound, lane=lane)
        for name, metric, op, bound in limits
        if name not in left_out
    )
