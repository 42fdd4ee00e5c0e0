"""A pack: the suites that a change must pass, how they are weighted, and what they examine."""

from __future__ import annotations

import math
from itertools import product
from typing import Annotated, Any, Literal

import msgspec

from gatemark.core.canonical import digest_document
from gatemark.core.errors import IntegrityError, InvalidValueError, NewerFormatError
from gatemark.core.policy import Against, Operator, Rule, Severity
from gatemark.core.result import PACK_VERSION, AssetKind
from gatemark.core.stored import newer_format, read_stored
from gatemark.evidence.rows import Sampling
from gatemark.evidence.settings_file import about
from gatemark.scorers.recorded import NAME as RECORDED_SCORER

WEIGHT_TOLERANCE = 1e-9
PACK_POLICY = "pack_policy"
"""Setting of a result's policy: the digest of the policy that the pack makes for every candidate.

Conditions of the run, the look that settled it and the number of candidates tried are not in it, so
that it names the required pack. What was asked is: whether there was a baseline, and a limit.
"""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][\w.-]*$")]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
RegressionMode = Literal["point", "non_inferiority"]
EMBEDDING = "embedding"
"""The scorer that compares vectors, which a pack requests while it runs."""
MAX_CELLS = 100
"""Maximum number of candidates in a matrix."""


class PackAsset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the pack examines."""

    kind: Annotated[AssetKind, about("Kind of thing that changes, such as `prompt` or `model`.")]
    name: Annotated[Name, about("Its name, as promotions know it.")]


class ScorerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scorer by name, with its options; ``judge`` names the pack's judge that it asks."""

    name: Annotated[str, about("Name of the scorer.")]
    options: Annotated[dict[str, Any], about("Options of the scorer.")] = {}
    judge: Annotated[Name | None, about("Judge of the pack that the scorer `judge` asks.")] = None


class JudgeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model that grades or compares: the target, and the people's labels that qualify it.

    ``labels`` are answers that people graded, or pairs of answers that people compared. A judge may
    gate only if its agreement with them has lower bounds of at least ``licence_min``, over
    ``min_items`` or more of them.
    """

    target: Annotated[dict[str, Any], about("Target that is asked.")]
    labels: Annotated[
        str,
        about(
            "File of answers that people graded, with `id`, `input`, `output` and `label`; to "
            "compare, `output` has the keys `first` and `second`, and `label` is `FIRST`, `SECOND` "
            "or `TIE`."
        ),
    ]
    licence_min: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1)],
        about("Minimum lower bound of the agreement with people."),
    ] = 0.6
    min_items: Annotated[
        Annotated[int, msgspec.Meta(ge=20, le=1_000_000)],
        about("Minimum number of answers or pairs that people labelled."),
    ] = 50


Bound = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class _Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of which at least one must be given."""

    def __post_init__(self) -> None:
        if not self.given:
            names = ", ".join(self.__struct_fields__)
            raise InvalidValueError(f"name at least one bound: {names}")

    @property
    def given(self) -> dict[str, float]:
        """The bounds that are set, by key."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: bound for name, bound in found.items() if bound is not None}


class LatencyBounds(_Bounds, frozen=True, forbid_unknown_fields=True):
    """Maximum latency of the candidate's answers, in milliseconds.

    Half of the answers may take at most ``p50_ms_max``, 95 of 100 at most ``p95_ms_max``. A
    percentile is the smallest observed latency that this share of the answers does not exceed.
    """

    p50_ms_max: Annotated[Bound | None, about("Maximum median latency, in milliseconds.")] = None
    p95_ms_max: Annotated[
        Bound | None, about("Maximum latency of 95 of 100 answers, in milliseconds.")
    ] = None


class CostBounds(_Bounds, frozen=True, forbid_unknown_fields=True):
    """Maximum cost of the candidate's answers: in total, and on average per answer.

    Money is in the unit of the target's costs; tokens are input and output tokens.
    """

    money_max: Annotated[Bound | None, about("Maximum cost of all answers.")] = None
    money_per_item_max: Annotated[Bound | None, about("Maximum mean cost of an answer.")] = None
    tokens_max: Annotated[Bound | None, about("Maximum number of tokens of all answers.")] = None
    tokens_per_item_max: Annotated[
        Bound | None, about("Maximum mean number of tokens of an answer.")
    ] = None


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


WORST_SLICE_SCORE = "worst_slice_score"
WORST_SLICE_DROP = "worst_slice_regression"


class Arms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who answers: the candidate, and the baseline it would replace or the word ``none``.

    Targets are validated by the targets package.
    """

    candidate: Annotated[dict[str, Any], about("What is examined.")]
    baseline: Annotated[
        dict[str, Any] | Literal["none"], about("What it would replace, or `none`.")
    ]


class Adaptive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask the items in rounds, and stop as soon as the verdict on the drop is clear.

    After each of the ``looks`` rounds the drop is judged; the looks share the pack's ``alpha``.
    ``budget`` is the maximum number of items that each arm is asked (default: all).
    """

    looks: Annotated[
        Annotated[int, msgspec.Meta(ge=2, le=10)], about("Number of rounds, 2 to 10.")
    ] = 3
    budget: Annotated[
        Positive | None, about("Maximum number of items that each arm is asked. Default: all.")
    ] = None


class Cell(msgspec.Struct, frozen=True):
    """One candidate of a matrix: a value of every axis, and the resulting target."""

    values: dict[str, str]
    target: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the candidate, such as ``short/small``."""
        return "/".join(self.values.values())


def _merge(base: Any, changes: Any) -> Any:
    """Return a mapping with changes merged key by key; null removes a key."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    left = {key: value for key, value in base.items() if changes.get(key, value) is not None}
    added = {key: _merge(base.get(key), value) for key, value in changes.items()}
    return {**left, **{key: value for key, value in added.items() if value is not None}}


class Pack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A complete pack, identified by its digest.

    ``regression_max`` is how far the bench may drop, ``guard_max`` how far any one suite may
    (default: twice as far). ``latency`` and ``cost`` limit the candidate's answers to all suites
    together.

    ``matrix`` turns one candidate into several: axes such as ``prompt`` and ``model``, each with
    named changes to ``targets.candidate``; every combination is a candidate. ``candidates`` is how
    many were tried if not all of them are in the matrix: the best of several is tested at ``alpha``
    divided by their number. ``adaptive`` asks no more items than the verdict needs.
    """

    gatemark: Annotated[Literal[1], about("Version of the format.")]
    name: Annotated[Name, about("Name of the pack.")]
    version: Annotated[
        Positive, about("Version of the pack; raise it when rules, suites or data change.")
    ]
    asset: Annotated[PackAsset, about("What the pack examines.")]
    score_min: Annotated[Share, about("Minimum bench score.")]
    regression_max: Annotated[Share, about("Maximum drop of the bench score.")]
    suites: Annotated[tuple[SuiteSpec, ...], about("The suites, in the order of reports.")]
    targets: Annotated[
        Arms | None, about("Who answers; a pack of evidence files alone has none.")
    ] = None
    judges: Annotated[dict[Name, JudgeSpec], about("Models that grade or compare, by name.")] = {}
    required_suites: Annotated[tuple[str, ...], about("Suites whose floors block.")] = ()
    alpha: Annotated[Annotated[float, msgspec.Meta(gt=0, lt=0.5)], about("Significance level.")] = (
        0.05
    )
    rules: Annotated[tuple[Rule, ...], about("Rules of your own.")] = ()
    guard_max: Annotated[
        Share | None, about("Maximum drop of any one suite. Default: twice `regression_max`.")
    ] = None
    latency: Annotated[LatencyBounds | None, about("Bounds on the latency of all answers.")] = None
    cost: Annotated[CostBounds | None, about("Bounds on the cost of all answers.")] = None
    matrix: Annotated[
        dict[Name, dict[Name, dict[str, Any]]],
        about("Axes with named changes to `targets.candidate`; every combination is a candidate."),
    ] = {}
    candidates: Annotated[
        Positive | None,
        about("Number of candidates that were tried, where not all are in the matrix."),
    ] = None
    adaptive: Annotated[
        Adaptive | None, about("Ask the items in rounds, and stop when the verdict is clear.")
    ] = None

    def __post_init__(self) -> None:
        problems = self.problems()
        if problems:
            raise InvalidValueError("; ".join(problems))

    def problems(self) -> list[str]:
        """Return the problems that only several keys together can show."""
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
            f"suite {suite.id} looks at {suite.source!r}, which is not another suite with a dataset"
            for suite in self.suites
            if suite.source is not None and suite.source not in self._answering()
        )
        if self.targets is None and self._answering():
            found.append("targets must say who answers the suites' items")
        if not self._answering() and (self.latency is not None or self.cost is not None):
            found.append("latency and cost need a suite with a dataset, whose items are answered")
        found.extend(self._judge_problems())
        found.extend(self._matrix_problems())
        found.extend(self._adaptive_problems())
        return found

    def _matrix_problems(self) -> list[str]:
        if not self.matrix:
            return []
        if self.targets is None:
            return ["a matrix needs targets.candidate, which its values change"]
        found = [
            f"matrix axis {axis!r} has no values" for axis in self.matrix if not self.matrix[axis]
        ]
        count = math.prod(len(values) for values in self.matrix.values())
        if count > MAX_CELLS:
            found.append(f"the matrix has {count} candidates, at most {MAX_CELLS} are allowed")
        # Answers in a run are stored under the candidate's name, and these two are taken.
        taken = {"baseline", "licence"}.intersection(*self.matrix.values())
        if len(self.matrix) == 1 and taken:
            found += [f"matrix: no candidate can be called {name!r}" for name in sorted(taken)]
        return found

    def _adaptive_problems(self) -> list[str]:
        """Return rules that fewer items would make easier to pass: they need all items."""
        if self.adaptive is None:
            return []
        costs = [self.cost, *(suite.cost for suite in self.suites)]
        needs_all = {
            "matrix": bool(self.matrix),
            "rules": bool(self.rules),
            "slice_min": any(suite.slice_min is not None for suite in self.suites),
            "slice_regression_max": any(s.slice_regression_max is not None for s in self.suites),
            "cost.money_max": any(cost and cost.money_max is not None for cost in costs),
            "cost.tokens_max": any(cost and cost.tokens_max is not None for cost in costs),
        }
        return [
            f"adaptive may ask only some of the items, and {name} needs all of them; "
            "leave one of the two out"
            for name, is_used in needs_all.items()
            if is_used
        ]

    def _judge_problems(self) -> list[str]:
        # A suite may name a judge and still be refused, by its kind and with a better reason.
        named = [n for suite in self.suites for n in (suite.judge, suite.options.get("judge"))]
        return [
            f"suite {suite.id} asks judge {suite.judge!r}, which is not among the pack's judges"
            for suite in self.suites
            if suite.judge is not None and suite.judge not in self.judges
        ] + [
            f"judge {name!r} is not used by any suite" for name in self.judges if name not in named
        ]

    def _answering(self) -> set[str]:
        return {suite.id for suite in self.suites if suite.dataset is not None}

    def cells(self) -> tuple[Cell, ...]:
        """Return every candidate of the matrix; none without one."""
        if not self.matrix or self.targets is None:
            return ()
        found = []
        for names in product(*self.matrix.values()):
            target: Any = self.targets.candidate
            values = dict(zip(self.matrix, names, strict=True))
            for axis, name in values.items():
                target = _merge(target, self.matrix[axis][name])
            found.append(Cell(values, target))
        return tuple(found)

    @property
    def tried(self) -> int:
        """How many candidates the judged one may have been picked from."""
        return max(self.candidates or 1, math.prod(map(len, self.matrix.values())))

    @property
    def level(self) -> float:
        """The significance level of one candidate's tests."""
        return self.alpha / self.tried

    @property
    def has_baseline(self) -> bool:
        """Whether answers are compared with those of a baseline."""
        return self.targets is not None and self.targets.baseline != "none"

    def suite(self, name: str) -> SuiteSpec:
        """Return the suite with that id."""
        return next(suite for suite in self.suites if suite.id == name)


def read_pack(data: bytes, expected: str, place: str) -> Pack:
    """Return a stored pack; its bytes must have the digest ``expected``.

    Raises NewerFormatError for a version that only a newer build knows.
    """
    try:
        found = digest_document(data)
        if found != expected:
            raise IntegrityError(f"{place}: is not the pack that the result names")
        version = msgspec.json.decode(data, type=_PackVersion).gatemark
        if version > PACK_VERSION:
            raise NewerFormatError(f"{place}: {newer_format(f'gatemark.pack/{version}')}")
        return read_stored(data, Pack)
    except (InvalidValueError, msgspec.MsgspecError) as error:
        raise IntegrityError(f"{place}: cannot be read: {error}") from error


class _PackVersion(msgspec.Struct):
    gatemark: int
