"""The advisory policy: limits overall and per lane, meanings of labels, private content.

Its defaults are the source document's thresholds. A lane can become a candidate only if the policy
names it, with a scope that a person approved, a rollback plan and a reviewer.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Final, Literal

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import InvalidValueError
from gatemark.evidence.private_text import PrivateTextRules
from gatemark.plugins.advisory.confidence_buckets import BUCKET_RULES, Edges
from gatemark.plugins.advisory.policy_limits import COMPARABLE_MIN, LaneBounds, OverallBounds
from gatemark.plugins.advisory.record import LABEL_PATTERN, NAME_PATTERN, Share
from gatemark.plugins.advisory.taxonomy import Taxonomy


def make_lane_name(input_class: str, service: str) -> str:
    """Return the name of a lane: its kind of input and its service."""
    return f"{input_class}/{service}"


PLACEHOLDERS: Final = frozenset(
    ("", "tbd", "tba", "todo", "n/a", "na", "none", "null", "nobody", "unknown", "pending", "xxx")
)
ADVISORY_LANES_MAX: Final = 1_000
_NAME: Final = re.compile(NAME_PATTERN)
_LABEL: Final = re.compile(LABEL_PATTERN)
FilledText = Annotated[str, msgspec.Meta(pattern=r"\S", max_length=2_000)]


class Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What people must have settled before a lane can be discussed."""

    scope: FilledText
    approved_by: FilledText
    rollback_plan: FilledText
    reviewer: FilledText

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
    smaller_scope: FilledText | None = None
    bounds: dict[str, float | int | bool | None] = {}
    labels: Taxonomy | None = None


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
    name: FilledText = "advisory defaults"
    overall: OverallBounds = OverallBounds()
    lane_defaults: LaneBounds = LaneBounds()
    lanes: dict[str, LanePolicy] = {}
    stability: Stability = Stability()
    labels: Taxonomy = Taxonomy()
    bucket_rules: dict[str, Edges] = msgspec.field(default_factory=BUCKET_RULES.copy)
    privacy: PrivateTextRules = PrivateTextRules()

    def __post_init__(self) -> None:
        problems = [*self._check_lanes(), *self._check_labels(), *self._check_buckets()]
        if problems:
            raise InvalidValueError("; ".join(problems))

    def _check_lanes(self) -> list[str]:
        found = []
        if len(self.lanes) > ADVISORY_LANES_MAX:
            found.append(f"names more than {ADVISORY_LANES_MAX} lanes")
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

    def _check_labels(self) -> list[str]:
        taxonomies = [self.labels, *(lane.labels for lane in self.lanes.values() if lane.labels)]
        return [
            f"label {label!r} does not match {LABEL_PATTERN}"
            for taxonomy in taxonomies
            for label in (*taxonomy.labels, *taxonomy.aliases)
            if not _LABEL.fullmatch(label)
        ]

    def _check_buckets(self) -> list[str]:
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
