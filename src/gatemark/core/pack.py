"""A pack: the exams a change must sit, how they count, and what sits them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from gatemark.core.change import AssetKind
from gatemark.core.errors import InvalidValueError
from gatemark.core.policy import Rule

WEIGHT_TOLERANCE = 1e-9

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][\w.-]*$")]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
RegressionMode = Literal["point", "non_inferiority"]


class Asset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the pack examines."""

    kind: AssetKind
    name: Name


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A seeded draw from a data set, even over the values of a tag when one is named."""

    n: Positive
    seed: int = 0
    stratify: str | None = None


class ScorerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scorer by name, with its options."""

    name: str
    options: dict[str, Any] = {}


class SuiteSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from"}):
    """One suite of a pack.

    ``source`` (written ``from``) names another suite whose answers this one looks at again.
    ``reruns`` answers every item that often; ``fails_at`` is how many of them must fail before an
    adversarial probe counts as broken. ``errors_max`` is the share of items that may go wrong
    without holding the verdict open.
    """

    id: Name
    kind: Name
    weight: Share
    min: Share | None = None
    dataset: str | None = None
    source: str | None = None
    scorer: str | ScorerSpec | None = None
    sample: Sampling | None = None
    epochs: Positive = 1
    reruns: Positive = 1
    fails_at: Positive = 1
    regression: RegressionMode | None = None
    regression_max: Share | None = None
    errors_max: Share = 0.0
    slices: tuple[str, ...] = ()
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if (self.dataset is None) == (self.source is None):
            raise InvalidValueError(f"suite {self.id} needs a dataset, or another suite to look at")
        if self.fails_at > self.reruns:
            raise InvalidValueError(f"suite {self.id}: fails_at exceeds reruns")
        if self.reruns > 1 and self.epochs > 1:
            raise InvalidValueError(f"suite {self.id}: give epochs or reruns, not both")

    @property
    def repeats(self) -> int:
        """How often every item is answered."""
        return max(self.epochs, self.reruns)


class Arms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What answers: the candidate, and what it would replace or the word ``none``.

    The form of a target is the targets' business.
    """

    candidate: dict[str, Any]
    baseline: dict[str, Any] | Literal["none"]


class Pack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole exam, frozen by its digest."""

    gatemark: Literal[1]
    name: Name
    version: Positive
    asset: Asset
    score_min: Share
    regression_max: Share
    suites: tuple[SuiteSpec, ...]
    targets: Arms
    required_suites: tuple[str, ...] = ()
    alpha: Annotated[float, msgspec.Meta(gt=0, lt=0.5)] = 0.05
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        problems = self.problems()
        if problems:
            raise InvalidValueError("; ".join(problems))

    def problems(self) -> list[str]:
        """What no single key can show to be wrong."""
        found = []
        ids = [suite.id for suite in self.suites]
        if not ids:
            found.append("a pack needs at least one suite")
        found.extend(
            f"suite id {name!r} comes twice" for name in sorted(set(ids)) if ids.count(name) > 1
        )
        found.extend(
            f"required suite {name!r} is not in the pack"
            for name in self.required_suites
            if name not in ids
        )
        total = sum(suite.weight for suite in self.suites)
        if ids and abs(total - 1) > WEIGHT_TOLERANCE:
            found.append(f"weights must sum to 1, got {total:.12g}")
        found.extend(
            f"suite {suite.id} looks at {suite.source!r}, which is no other suite with a dataset"
            for suite in self.suites
            if suite.source is not None and suite.source not in self._answering()
        )
        return found

    def _answering(self) -> set[str]:
        return {suite.id for suite in self.suites if suite.dataset is not None}

    def suite(self, name: str) -> SuiteSpec:
        """The suite of that id."""
        return next(suite for suite in self.suites if suite.id == name)
