"""A suite of a pack: whose answers it examines, how they are scored, and how far they may drop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.policy import Against, Operator, Rule, Severity
from gatemark.evidence.rows import Sampling
from gatemark.evidence.settings_file import about
from gatemark.packs.answer_bounds import CostBounds, LatencyBounds
from gatemark.packs.key_types import Name, Positive, Share
from gatemark.scorers.recorded import NAME as RECORDED_SCORER

RegressionMode = Literal["point", "non_inferiority"]
EMBEDDING = "embedding"
"""The scorer that compares vectors, which a pack requests while it runs."""
WORST_SLICE_SCORE = "worst_slice_score"
WORST_SLICE_DROP = "worst_slice_regression"
"""Measurements of the worst slice of a suite, which the rules on its slices check."""


class ScorerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scorer by name, with its options; ``judge`` names the pack's judge that it asks."""

    name: Annotated[str, about("Name of the scorer.")]
    options: Annotated[dict[str, Any], about("Options of the scorer.")] = {}
    judge: Annotated[Name | None, about("Judge of the pack that the scorer `judge` asks.")] = None


class SuiteSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from"}):
    """One suite of a pack.

    ``source`` (written ``from``) names another suite whose answers this one examines. ``evidence``
    names the files that an exam over records reads, by their role; the baseline's are in
    ``baseline_evidence``, or the word ``none`` if there is nothing to compare with. ``reruns`` is
    how often every item is answered; ``fails_at`` is how many of them must fail before an
    adversarial probe counts as broken. ``errors_max`` is the share of items that may fail without
    making the verdict inconclusive. ``template`` is what the target gets as its input, with
    placeholders such as ``{{input.user}}``; without it the target gets the item's input.
    ``regression_max`` is how far this suite alone may drop (default: the pack's ``guard_max``).
    ``largest_drop`` declares how far the score of one item can move. ``severity: block`` makes the
    floor of a suite that is not required block. ``latency`` and ``cost`` limit the candidate's
    answers to this suite. ``slices`` are tags: the items of each value are measured on their own.
    No slice may score less than ``slice_min`` or drop by more than ``slice_regression_max``; slices
    with fewer items than ``slice_min_items`` (default: 20) are judged together.
    """

    id: Annotated[Name, about("Name of the suite, which rules use as the scope.")]
    kind: Annotated[Name, about("Kind of suite, such as `golden`.")]
    weight: Annotated[Share, about("Share in the bench score; the weights of all suites sum to 1.")]
    min: Annotated[Share | None, about("Floor: minimum score of the suite.")] = None
    dataset: Annotated[str | None, about("File of items, or `builtin:probes_v1`.")] = None
    source: Annotated[str | None, about("Suite whose answers this one looks at again.")] = None
    evidence: Annotated[
        dict[Name, str] | None, about("Files that an exam over records reads, by their role.")
    ] = None
    baseline_evidence: Annotated[
        dict[Name, str] | Literal["none"] | None,
        about("The same files of the baseline, or `none`."),
    ] = None
    scorer: Annotated[
        str | ScorerSpec | None, about("Scorer of the answers: a name, or a mapping with options.")
    ] = None
    sample: Annotated[Sampling | None, about("Seeded draw from the data set.")] = None
    epochs: Annotated[Positive, about("How often every item is answered, for the mean.")] = 1
    reruns: Annotated[Positive, about("How often every probe is tried.")] = 1
    fails_at: Annotated[Positive, about("Failed tries that make a probe count as broken.")] = 1
    regression: Annotated[
        RegressionMode | None,
        about("How a drop is judged: with its uncertainty, or by the point alone."),
    ] = None
    regression_max: Annotated[
        Share | None, about("Maximum drop of this suite. Default: the pack's `guard_max`.")
    ] = None
    errors_max: Annotated[
        Share, about("Share of items that may end in an error without holding the verdict open.")
    ] = 0.0
    slices: Annotated[tuple[str, ...], about("Tags whose values are measured on their own.")] = ()
    options: Annotated[dict[str, Any], about("Options of the kind of suite.")] = {}
    template: Annotated[
        Any, about("What the target gets as its input, with placeholders such as `{{input.user}}`.")
    ] = None
    severity: Annotated[
        Literal["block", "warn"] | None,
        about("Whether the floor of a suite that is not required blocks."),
    ] = None
    largest_drop: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1)] | None,
        about("How far the score of one item can move, for graded scores."),
    ] = None
    latency: Annotated[
        LatencyBounds | None, about("Bounds on the latency of the candidate's answers.")
    ] = None
    cost: Annotated[CostBounds | None, about("Bounds on what the candidate's answers cost.")] = None
    slice_min: Annotated[Share | None, about("Minimum score of every slice.")] = None
    slice_regression_max: Annotated[Share | None, about("Maximum drop of every slice.")] = None
    slice_min_items: Annotated[
        Positive | None, about("Items that a slice needs to be judged alone. Default: 20.")
    ] = None

    def __post_init__(self) -> None:
        if not self.slices and (self.slice_min, self.slice_regression_max) != (None, None):
            raise InvalidValueError(
                f"suite {self.id}: slice_min and slice_regression_max need slices: [tag]"
            )
        if self.template is not None and self.dataset is None:
            raise InvalidValueError(f"suite {self.id}: a template needs a dataset")
        if sum(given is not None for given in (self.dataset, self.source, self.evidence)) != 1:
            raise InvalidValueError(
                f"suite {self.id} needs one of: a dataset, another suite to look at, evidence"
            )
        if self.dataset is None and (self.latency is not None or self.cost is not None):
            raise InvalidValueError(
                f"suite {self.id}: latency and cost need a dataset, whose items are answered"
            )
        if (self.evidence is None) != (self.baseline_evidence is None):
            raise InvalidValueError(
                f"suite {self.id}: evidence and baseline_evidence come together; "
                "where there is no baseline, say baseline_evidence: none"
            )
        if self.evidence == {} or self.baseline_evidence == {}:
            raise InvalidValueError(f"suite {self.id}: evidence must name at least one file")
        if self.fails_at > self.reruns:
            raise InvalidValueError(f"suite {self.id}: fails_at exceeds reruns")
        if self.reruns > 1 and self.epochs > 1:
            raise InvalidValueError(f"suite {self.id}: give epochs or reruns, not both")

    def rule(
        self,
        name: str,
        metric: str,
        op: Operator,
        bound: float,
        *,
        severity: Severity = "block",
        against: Against = "value",
        min_n: int = 1,
    ) -> Rule:
        """Return a rule on a measurement of this suite."""
        name = f"{self.id}.{name}"
        return Rule(name, metric, op, bound, self.id, against, min_n, severity=severity)

    @property
    def judge(self) -> str | None:
        """The judge that this suite asks: about single answers, or to compare two."""
        return self.scorer.judge if isinstance(self.scorer, ScorerSpec) else self.comparing_judge

    @property
    def comparing_judge(self) -> str | None:
        """The judge that compares both arms' answers to another suite, named in the options."""
        named = None if self.source is None else self.options.get("judge")
        return named if isinstance(named, str) else None

    @property
    def is_embedded(self) -> bool:
        """Whether an embedding model is asked for the vectors of this suite's answers."""
        return isinstance(self.scorer, ScorerSpec) and self.scorer.name == EMBEDDING

    @property
    def is_graded(self) -> bool:
        """Whether a model is asked about the answers before they can be scored."""
        return self.judge is not None or self.is_embedded

    @property
    def repeats(self) -> int:
        """How often every item is answered."""
        return max(self.epochs, self.reruns)

    @property
    def is_scored_by_log(self) -> bool:
        """Whether it takes the scores that another tool gave the recorded answers."""
        spec = self.scorer
        return (spec.name if isinstance(spec, ScorerSpec) else spec) == RECORDED_SCORER
