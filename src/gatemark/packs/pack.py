"""A pack: the suites that a change must pass, how they are weighted, and what they examine."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec

from gatemark.core.canonical import digest_document
from gatemark.core.errors import IntegrityError, InvalidValueError, NewerFormatError
from gatemark.core.policy import Rule
from gatemark.core.result import PACK_VERSION, AssetKind
from gatemark.core.stored import newer_format, read_stored
from gatemark.evidence.settings_file import about
from gatemark.packs.answer_bounds import CostBounds, LatencyBounds
from gatemark.packs.judge_spec import JudgeSpec
from gatemark.packs.key_types import Name, Positive, Share
from gatemark.packs.matrix_cells import Cell, list_cells
from gatemark.packs.suite_spec import SuiteSpec

WEIGHT_TOLERANCE = 1e-9
PACK_POLICY = "pack_policy"
"""Setting of a result's policy: the digest of the policy that the pack makes for every candidate.

Conditions of the run, the look that settled it and the number of candidates tried are not in it, so
that it names the required pack. What was asked is: whether there was a baseline, and a limit.
"""
MAX_CELLS = 100
"""Maximum number of candidates in a matrix."""


class PackAsset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the pack examines."""

    kind: Annotated[AssetKind, about("Kind of thing that changes, such as `prompt` or `model`.")]
    name: Annotated[Name, about("Its name, as promotions know it.")]


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
            if suite.source is not None and suite.source not in self._list_answering()
        )
        if self.targets is None and self._list_answering():
            found.append("targets must say who answers the suites' items")
        if not self._list_answering() and (self.latency is not None or self.cost is not None):
            found.append("latency and cost need a suite with a dataset, whose items are answered")
        found.extend(self._judge_problems())
        found.extend(self._check_matrix())
        found.extend(self._check_adaptive())
        return found

    def _check_matrix(self) -> list[str]:
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
        taken = {"baseline", "qualification"}.intersection(*self.matrix.values())
        if len(self.matrix) == 1 and taken:
            found += [f"matrix: no candidate can be called {name!r}" for name in sorted(taken)]
        return found

    def _check_adaptive(self) -> list[str]:
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

    def _list_answering(self) -> set[str]:
        return {suite.id for suite in self.suites if suite.dataset is not None}

    def cells(self) -> tuple[Cell, ...]:
        """Return every candidate of the matrix; none without one."""
        if not self.matrix or self.targets is None:
            return ()
        return list_cells(self.matrix, self.targets.candidate)

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
