"""``gatemark score calibration``: whether stated confidences match observed accuracy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from gatemark.checks.calibration.confidences import ConfidenceReader
from gatemark.checks.score import ScoreReport, ScoreRequest, ScoreVerb, require_one_path
from gatemark.core.measurement import Evidence, EvidenceFile, measured, unmeasured
from gatemark.core.policy import Outcome, Policy, Rule, decide
from gatemark.core.progress import Progress
from gatemark.core.reason import Reason
from gatemark.evidence.exam_options import file_option, option
from gatemark.evidence.exam_suite import EvidenceRole
from gatemark.evidence.measures import measures
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import digest_source, opened_sources
from gatemark.report.words import NOT_MEASURED, VERDICT_WORDS, number
from gatemark.statistics.confidence.bins import INFORMATIVE, explain_few_bins
from gatemark.workspace import Workspace

DEFAULT_BINS: Final = 15
DEFAULT_SEED: Final = 19
MIN_ITEMS: Final = 100

_NUMBERS: Final = (
    *("ece", "mce", "mce_min10", "ece_excess", "iso_dev"),
    *("twin_ece", "twin_p_value", "iso_dev_max"),
)


class CalibrationParameters(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command: which score to use, the number of bins, and the gates."""

    score: Annotated[
        str | None,
        file_option("Name of the 0/1 score that says whether an answer was right.", metavar="NAME"),
    ] = None
    bins: Annotated[int, option("Number of equal-width bins.", low=1, high=1000)] = DEFAULT_BINS
    max_ece: Annotated[
        float | None, option("Maximum expected calibration error (a gate).", low=0, high=1)
    ] = None
    max_mce: Annotated[
        float | None, option("Maximum error of any bin (a gate).", low=0, high=1)
    ] = None
    seed: Annotated[int, option("Random seed of the simulated twins.", low=0)] = DEFAULT_SEED


class CalibrationScore(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of calibration; the fields are the keys of the JSON document.

    Numbers are null if no item could be judged. ``verdict`` is null if items were measured and no
    gate was set.
    """

    n: int
    ece: float | None
    mce: float | None
    mce_min10: float | None
    ece_excess: float | None
    iso_dev: float | None
    brier: dict[str, float] | None
    bins: list[dict[str, Any]]
    auroc: float | None
    auroc_interval: tuple[float, float] | None
    twin_ece: float | None
    twin_p_value: float | None
    iso_dev_max: float | None
    score: str | None
    received: int
    excluded: dict[str, int]
    gates: dict[str, float]
    verdict: Outcome | None
    blockers: tuple[str, ...]
    caveats: tuple[str, ...]
    seed: int
    file: EvidenceFile


def score_calibration(
    workspace: Workspace,
    path: str,
    request: CalibrationParameters,
    choices: ReadingChoices,
    on_progress: Progress | None = None,
) -> CalibrationScore:
    """Read confidences, measure them, and judge them if gates are set."""
    measure = measures().get("calibration")
    # Imported here, so that other commands work without this plugin.
    from gatemark.checks.calibration import measure as calibration  # noqa: PLC0415

    state = measure.zero()
    excluded: Counter[str] = Counter()
    with opened_sources((path,), choices.limits) as (source,):
        reading = ConfidenceReader(source, request.score, choices)
        for items in reading.read_items(excluded, on_progress):
            state = measure.step(state, items)
        file = digest_source(source)
    found = calibration.summarize_calibration(state, bins=request.bins, seed=request.seed)
    n = 0 if found is None else found.n
    resolution = calibration.summarize_resolution(state, bins=request.bins)
    doubt = _find_doubt(request, resolution)
    verdict, blockers = _judge_gates(workspace, request, found, reading, excluded, doubt=doubt)
    caveats = (f"fewer than {MIN_ITEMS} inputs: binned errors are mostly chance",)
    return CalibrationScore(
        n=n,
        **{name: getattr(found, name, None) for name in _NUMBERS},
        brier=msgspec.to_builtins(found.brier) if found else None,
        bins=msgspec.to_builtins(found.bins) if found else [],
        auroc=resolution.auroc if resolution else None,
        auroc_interval=resolution.interval if resolution else None,
        score=reading.score,
        received=reading.received,
        excluded=dict(sorted(excluded.items())),
        gates=_collect_gates(request),
        verdict=verdict,
        blockers=blockers,
        caveats=(
            *(caveats if 0 < reading.input_count < MIN_ITEMS else ()),
            *([str(doubt)] if doubt else ()),
        ),
        seed=request.seed,
        file=file,
    )


def _find_doubt(request: CalibrationParameters, resolution: Any) -> Reason | None:
    """Return why a low calibration error says nothing, or None if it may."""
    found = explain_few_bins(request.bins)
    return found or (None if resolution is None else resolution.explain_uninformative())


def _collect_gates(request: CalibrationParameters) -> dict[str, float]:
    gates = {"ece": request.max_ece, "mce": request.max_mce}
    return {name: bound for name, bound in gates.items() if bound is not None}


def _judge_gates(
    workspace: Workspace,
    request: CalibrationParameters,
    found: Any,
    reading: ConfidenceReader,
    excluded: Counter[str],
    *,
    doubt: Reason | None,
) -> tuple[Outcome | None, tuple[str, ...]]:
    if found is None:
        return "inconclusive", ("no item has a confidence and an outcome",)
    gates = _collect_gates(request)
    if not gates:
        return None, ()
    policy = Policy(
        name="calibration",
        rules=(
            *(
                Rule(id=f"calibration.{name}", metric=name, op="<=", bound=bound, min_n=MIN_ITEMS)
                for name, bound in gates.items()
            ),
            Rule(
                id=f"calibration.{INFORMATIVE}",
                metric=INFORMATIVE,
                op=">=",
                bound=1.0,
                severity="hold",
            ),
        ),
    )
    evidence = Evidence(
        received=reading.received,
        accepted=reading.received,
        rejected=0,
        usable=found.n,
        missing=excluded.total(),
        expected=None,
        files=(),
    )
    numbers = [
        measured(name, getattr(found, name), n=reading.input_count, direction="lower_is_better")
        for name in gates
    ]
    informative = (
        measured(INFORMATIVE, 1.0, n=found.n, direction="higher_is_better")
        if doubt is None
        else unmeasured(INFORMATIVE, doubt, n=found.n, direction="higher_is_better")
    )
    verdict = decide(policy, (evidence,), (*numbers, informative), (), now=workspace.clock())
    return verdict.outcome, verdict.blockers


def format_calibration(scored: CalibrationScore) -> str:
    """Format the numbers for the terminal."""
    lines = []
    if scored.verdict is not None:
        lines.append(f"{VERDICT_WORDS[scored.verdict]}  calibration")
        lines.extend(f"  - {blocker}" for blocker in scored.blockers)
        lines.append("")
    brier = scored.brier or {}
    rows: list[tuple[str, float | None]] = [
        ("ECE", scored.ece),
        ("ECE beyond a calibrated twin's", scored.ece_excess),
        ("MCE", scored.mce),
        ("MCE over bins of 10 or more", scored.mce_min10),
        ("isotonic deviation", scored.iso_dev),
        ("AUROC (resolution)", scored.auroc),
        ("Brier score", brier.get("score")),
        ("  miscalibration", brier.get("mcb")),
        ("  discrimination", brier.get("dsc")),
        ("  uncertainty", brier.get("unc")),
    ]
    lines.append(f"{'items':<32}{scored.n}")
    for name, value in rows:
        lines.append(f"{name:<32}{NOT_MEASURED if value is None else number(value)}")
    for reason, count in scored.excluded.items():
        lines.append(f"{'left out: ' + reason:<32}{count}")
    lines.extend(_format_bins(scored.bins))
    lines.extend(f"caveat: {caveat}" for caveat in scored.caveats)
    return "\n".join(lines)


def _format_bins(bins: list[dict[str, Any]]) -> Iterator[str]:
    filled = [bin_ for bin_ in bins if bin_["n"]]
    if not filled:
        return
    yield (f"\n{'confidence':<18}{'items':>7}  {'promised':>8}  {'came true':>9}")
    for bin_ in filled:
        edges = f"({bin_['low']:.3f}, {bin_['high']:.3f}]"
        yield (
            f"{edges:<18}{bin_['n']:>7}  {bin_['mean_confidence']:>8.4f}  {bin_['accuracy']:>9.4f}"
        )


def _score_request(workspace: Workspace, request: ScoreRequest) -> ScoreReport:
    path = require_one_path(request)
    found = score_calibration(
        workspace, path, request.parameters, request.reading, request.on_progress
    )
    return ScoreReport(
        document=found, verdict=found.verdict, text=lambda _color: format_calibration(found)
    )


SCORE = ScoreVerb(
    name="calibration",
    kind="calibration",
    summary="Measure how far stated confidences are from observed accuracy.",
    help="""\
FILE holds lines of id, confidence (0 to 1) and correct (true or false), or gatemark.sample/1
with a confidence and a score of 0 or 1; plain, gzip or zstd, '-' is standard input. Gives ECE,
MCE, the deviation of an isotonic fit, the Brier score with its parts, and the AUROC: whether
confidences are higher where answers are right.

Without gates, exit 0. With gates: 0 pass, 1 fail, 3 if there are fewer than 100 items or 10 bins,
if items without a confidence or an outcome leave the verdict open, or if all confidences are equal,
or higher where answers are wrong. Exit 3 also if nothing could be measured, and 2 for bad input.

\b
Examples:
  gatemark score calibration answers.jsonl
  gatemark score calibration samples.jsonl --score exact --max-ece 0.05 --json""",
    roles=(EvidenceRole("file", "Confidences, or samples.", positional=True),),
    parameters=CalibrationParameters,
    score=_score_request,
    features=frozenset(),
)
