"""``gatemark compare``: read two files of samples, pair, compare and judge."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.measurement import Direction as ReportedDirection
from gatemark.core.measurement import EvidenceFile
from gatemark.core.progress import Progress
from gatemark.core.reason import Reason, ReasonKind
from gatemark.evidence.measures import measures
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import Source, digest_source, find_sources
from gatemark.samples.compare_verdict import CompareSettings, ComparisonVerdict, judge_comparison
from gatemark.samples.importer import SAMPLE_SCHEMA, TABLES, find_tool_log
from gatemark.samples.pairing import (
    LISTED_MAX,
    SamplePairing,
    choose_score,
    name_samples,
    pair_samples,
    score_names,
)
from gatemark.samples.read_samples import (
    AUTO,
    CLUSTER_FIELD,
    TASK_HASH,
    Key,
    SampleRequest,
    SampleSet,
    read_samples,
)
from gatemark.samples.score_direction import (
    ONLY_ZERO_AND_ONE,
    Better,
    Direction,
    DirectionClues,
    Orientation,
    find_direction,
)
from gatemark.samples.score_settings import find_other_settings
from gatemark.samples.views import (
    Clusters,
    ComparisonReport,
    LostItem,
    NonInferior,
    OtherInterval,
    Sameness,
    Side,
    SideNames,
    Sides,
)

WORST_MAX: Final = 100
# Lineage keys that should not differ between two runs.
SAME_LINEAGE: Final = ("task", "dataset", "inspect_ai", "lm_eval", "promptfoo")
_TIMELESS: Final = frozenset({SAMPLE_SCHEMA, TABLES, "lm-eval", "ragas"})
"""Formats without times and ids of runs."""
MCNEMAR: Final = "exact McNemar"
GRADED: Final = "BCa bootstrap and sign flips"
CLUSTERED: Final = "cluster-robust t"
ONE_FILE: Final = ReasonKind(
    "one_file",
    "both sides are one file (same bytes, {digest}), so nothing was compared; "
    "name the candidate's own run",
)


class CompareRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to compare, and how."""

    base: str
    cand: str
    score: str | None = None
    cluster: str | None = None
    id_path: str | None = None
    tool: str = AUTO
    columns: dict[str, str] = {}
    base_arm: str | None = None
    cand_arm: str | None = None
    settings: CompareSettings = CompareSettings()
    sameness: Sameness | None = None
    """Whether the files are one; found out from their bytes if it is not known."""


class _Files(msgspec.Struct, frozen=True):
    base: SampleSet
    cand: SampleSet
    digests: tuple[EvidenceFile, EvidenceFile]
    sameness: Sameness


def compare_files(
    request: CompareRequest, choices: ReadingChoices, on_progress: Progress | None = None
) -> ComparisonReport:
    """Read both sides, pair them, measure the change, and judge it."""
    files = _read(request, choices, on_progress)
    base, cand = files.base, files.cand
    if request.id_path is not None and base.is_own and cand.is_own:
        raise UsageError("--id is for other tools' logs; these samples have their own ids")
    score = choose_score(base, cand, request.score)
    direction = _find_direction(base, cand, score, request.settings)
    orientation = _orient(base, cand, score, direction)
    pairing = pair_samples(base, cand, score, clustered=request.cluster is not None)
    if request.cluster is not None and not (base.clusters or cand.clusters):
        raise UsageError(
            f"no sample has a {request.cluster!r} to cluster by; "
            "--cluster takes the name of a tag, or 'cluster' for the field of that name"
        )
    settings = request.settings
    bounds = {"--margin": settings.margin, "--largest-drop": settings.largest_drop}
    for flag, bound in bounds.items():
        if bound is not None and not pairing.is_bounded:
            ends = sorted(orientation.turn(end or 0.0) for end in (pairing.lowest, pairing.highest))
            raise UsageError(
                f"{flag} needs scores inside [0, 1]; {score} ranges from {ends[0]:g} to {ends[1]:g}"
            )
    is_named = request.cluster is None and pairing.shared_clusters > 0
    if is_named:
        request = msgspec.structs.replace(request, cluster=CLUSTER_FIELD)
    judge = partial(
        judge_comparison,
        measures(),
        base=base,
        cand=cand,
        settings=settings,
        clustered=request.cluster is not None,
        direction=direction,
        incomparable=tuple(map(str, _find_incomparable(files, score, direction))),
    )
    judged = judge(pairing)
    if pairing.copies:
        # Copies must not buy a pass, and tasks that share their words must not hide a loss.
        apart = pair_samples(
            base, cand, score, clustered=request.cluster is not None, by_input=False
        )
        if _is_stricter(judged_apart := judge(apart), judged):
            pairing, judged = apart, judged_apart
    document = _build_report(files, pairing, judged, request, orientation)
    if not is_named or document.clusters is None:
        return document
    grouped = (
        f"items count by the {document.clusters.count} clusters that the samples name; "
        "name another grouping with --cluster"
    )
    return msgspec.structs.replace(document, caveats=(*document.caveats, grouped))


def _is_stricter(one: ComparisonVerdict, other: ComparisonVerdict) -> bool:
    order = ("pass", "inconclusive", "fail")
    return order.index(one.outcome) > order.index(other.outcome)


def _read(request: CompareRequest, choices: ReadingChoices, on_progress: Progress | None) -> _Files:
    # As in packs, clusters that the samples name count, even if nobody asks for them.
    cluster = CLUSTER_FIELD if request.cluster is None else request.cluster
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        paths = [str(find_tool_log(Path(path))) for path in (request.base, request.cand)]
        sources = find_sources(paths, choices.limits, Path(folder))
        total = sum(source.byte_count for source in sources)
        read: list[SampleSet] = []
        done = 0
        for source, arm, flag in zip(
            sources,
            (request.base_arm, request.cand_arm),
            ("--base-arm", "--cand-arm"),
            strict=True,
        ):
            asked = SampleRequest(
                tool=request.tool,
                arm=arm,
                arm_flag=flag,
                id_path=request.id_path,
                cluster=cluster,
                columns=request.columns,
            )
            read.append(
                read_samples(source, asked, choices, _shift_progress(on_progress, done, total))
            )
            done += source.byte_count
        digests = (digest_source(sources[0]), digest_source(sources[1]))
        sameness = request.sameness or _compare_bytes(sources, read, digests)
        return _Files(read[0], read[1], digests, sameness)


def _find_direction(
    base: SampleSet, cand: SampleSet, score: str, settings: CompareSettings
) -> Direction:
    """Return which scores are better, by what was stated or by what both sides say."""
    scored = base.scores.keys() | cand.scores.keys()
    for flag, names in (
        ("--lower-is-better", settings.lower_is_better),
        ("--higher-is-better", settings.higher_is_better),
    ):
        for name in names:
            if scored and name not in scored:
                raise UsageError(f"{flag}: no score {name!r} (scores: {score_names(scored)})")
    if both := set(settings.lower_is_better) & set(settings.higher_is_better):
        raise UsageError(
            f"{min(both)} cannot be better when lower and when higher; state one of them"
        )
    stated: Better | None = None
    if score in settings.lower_is_better:
        stated = "lower"
    elif score in settings.higher_is_better:
        stated = "higher"
    return find_direction(score, _gather_clues(base, cand, score), stated)


def _orient(base: SampleSet, cand: SampleSet, score: str, direction: Direction) -> Orientation:
    """Turn the scores of both sides so that higher is better; return how."""
    columns = [side.scores[score] for side in (base, cand) if score in side.scores]
    orientation = Orientation.of(direction, (one for column in columns for one in column.values()))
    if direction.is_lower:
        for side in (base, cand):
            if score in side.scores:
                turned = {key: orientation.turn(one) for key, one in side.scores[score].items()}
                side.scores[score] = turned
    return orientation


def _gather_clues(base: SampleSet, cand: SampleSet, score: str) -> DirectionClues:
    clues = DirectionClues()
    for side in (base, cand):
        clues.ask_tools(score, side.origins)
        labels = side.labels.get(score, {})
        for key, value in side.scores.get(score, {}).items():
            clues.add_score(value, labels.get(key))
    return clues


def _find_incomparable(files: _Files, score: str, direction: Direction) -> Iterator[Reason]:
    """Yield why the scores of both sides cannot be compared, whatever the items are."""
    if files.sameness == "one file":
        yield ONE_FILE(digest=files.digests[0].digest)
    yield from find_other_settings(score, files.base.origins, files.cand.origins)
    remedy = f"say --lower-is-better {score} or --higher-is-better {score}"
    if (unknown := direction.explain_unknown(score, remedy)) is not None:
        yield unknown


def _compare_bytes(
    sources: Sequence[Source], sides: Sequence[SampleSet], digests: Sequence[EvidenceFile]
) -> Sameness:
    """Return whether both sides are the same run, or may be.

    Most logs have times and ids, so two runs never write the same bytes. Where a format need not
    have either, two runs may agree in every byte.
    """
    if digests[0].digest != digests[1].digest or sides[0].arm != sides[1].arm:
        return "different"
    is_one = Path(sources[0].path).samefile(sources[1].path)
    if is_one or any(side.tool not in _TIMELESS for side in sides):
        return "one file"
    return "same bytes"


def _shift_progress(on_progress: Progress | None, done: int, total: int) -> Progress | None:
    if on_progress is None:
        return None
    return lambda now, _: on_progress(done + now, total)


def _build_report(
    files: _Files,
    pairing: SamplePairing,
    judged: ComparisonVerdict,
    request: CompareRequest,
    orientation: Orientation,
) -> ComparisonReport:
    direction = orientation.direction
    base, cand = files.base, files.cand
    state, found = judged.state, judged.comparison
    binary = state.graded == 0 and judged.n > 0
    deltas = [item.delta for item in pairing.items if item.delta is not None]
    interval = found.interval if found else None
    settings = request.settings
    return ComparisonReport(
        score=pairing.score,
        n=judged.n,
        both_right=state.both_right if binary else None,
        both_wrong=state.both_wrong if binary else None,
        gained=state.gained if binary else None,
        lost=state.lost if binary else None,
        improved=sum(delta > 0 for delta in deltas),
        worsened=sum(delta < 0 for delta in deltas),
        unchanged=sum(delta == 0 for delta in deltas),
        direction=_name_direction(direction),
        direction_source=direction.source,
        files=files.sameness,
        delta=orientation.turn_change(found.delta) if found else None,
        delta_over_all=_measure_delta_over_all(pairing, orientation),
        interval=orientation.turn_interval(interval.low, interval.high) if interval else None,
        interval_level=1 - settings.alpha,
        interval_method=interval.method if interval else None,
        other_intervals=tuple(
            OtherInterval(
                other.method, other.level, *orientation.turn_interval(other.low, other.high)
            )
            for other in (found.other_intervals if found else ())
        ),
        p_value=found.p_value if found else None,
        mid_p_value=found.mid_p_value if found else None,
        permutation_p_value=judged.permutation_p_value,
        method=CLUSTERED if request.cluster else MCNEMAR if state.graded == 0 else GRADED,
        mde=found.mde if found else None,
        errors=Sides(len(base.errors), len(cand.errors)),
        unscored=Sides(len(pairing.unscored[0]), len(pairing.unscored[1])),
        unpaired=Sides(len(pairing.unpaired[0]), len(pairing.unpaired[1])),
        refused=Sides(len(base.refused), len(cand.refused)),
        verdict=judged.outcome,
        reason=judged.reason,
        blockers=judged.blockers,
        caveats=(
            *_find_score_caveats(files, pairing.score, direction),
            *judged.caveats,
            *_find_caveats(base, cand, pairing),
        ),
        non_inferiority=_describe_non_inferiority(judged, settings),
        alpha=settings.alpha,
        seed=settings.seed,
        resamples=settings.resamples,
        epochs=pairing.epoch_count,
        clusters=_count_clusters(pairing, request.cluster),
        base=_describe_side(base, pairing, files.digests, 0, orientation),
        cand=_describe_side(cand, pairing, files.digests, 1, orientation),
        worst=_find_worst(pairing, orientation),
        error_ids=SideNames(_list_names(base.errors), _list_names(cand.errors)),
        unscored_ids=SideNames(_list_names(pairing.unscored[0]), _list_names(pairing.unscored[1])),
        unpaired_ids=SideNames(_list_names(pairing.unpaired[0]), _list_names(pairing.unpaired[1])),
    )


def _list_names(keys: Iterable[Key]) -> tuple[str, ...]:
    return name_samples(sorted(keys)[:LISTED_MAX])


def _describe_side(
    side: SampleSet,
    pairing: SamplePairing,
    digests: tuple[EvidenceFile, EvidenceFile],
    place: int,
    orientation: Orientation,
) -> Side:
    mean = pairing.means[place]
    return Side(
        file=side.name,
        digest=digests[place].digest,
        tool=side.tool,
        arm=side.arm,
        samples=len(side.keys),
        items=mean.item_count,
        scored_items=mean.scored_count,
        mean=None if mean.scored is None else orientation.turn(mean.scored),
        mean_over_all=None if mean.over_all is None else orientation.turn(mean.over_all),
        lineage=side.lineage,
    )


def _measure_delta_over_all(pairing: SamplePairing, orientation: Orientation) -> float | None:
    """Return the paired difference with items without a score counted as the worst score."""
    if not pairing.is_bounded or not pairing.items:
        return None
    total = math.fsum((item.cand or 0.0) - (item.base or 0.0) for item in pairing.items)
    return orientation.turn_change(total / len(pairing.items))


def _find_worst(pairing: SamplePairing, orientation: Orientation) -> tuple[LostItem, ...]:
    fallen = sorted(
        (item.cand - item.base, item.id, item.base, item.cand)
        for item in pairing.items
        if item.base is not None and item.cand is not None and item.cand < item.base
    )
    return tuple(
        LostItem(
            name, orientation.turn(base), orientation.turn(cand), orientation.turn_change(change)
        )
        for change, name, base, cand in fallen[:WORST_MAX]
    )


def _count_clusters(pairing: SamplePairing, key: str | None) -> Clusters | None:
    if key is None:
        return None
    sizes = Counter(
        item.cluster
        for item in pairing.items
        if item.cluster is not None and item.delta is not None
    )
    return Clusters(
        key=key,
        count=len(sizes),
        largest=max(sizes.values(), default=0),
        missing=len(pairing.clusterless),
    )


def _describe_non_inferiority(
    judged: ComparisonVerdict, settings: CompareSettings
) -> NonInferior | None:
    found = judged.non_inferiority
    if found is None:
        return None
    return NonInferior(
        outcome=found.outcome,
        margin=found.margin,
        stated=settings.margin is not None,
        drop=found.drop,
        lower=found.lower,
        upper=found.upper,
        method=found.method,
    )


def _name_direction(direction: Direction) -> ReportedDirection | None:
    if direction.better is None:
        return None
    return "lower_is_better" if direction.is_lower else "higher_is_better"


def _find_score_caveats(files: _Files, score: str, direction: Direction) -> list[str]:
    """Return what to know about the score itself: how sure its direction is, and its sources."""
    caveats = []
    if files.sameness == "same bytes":
        caveats.append("both files have the same bytes; if one is a copy, nothing was compared")
    if direction.source == ONLY_ZERO_AND_ONE:
        caveats.append(f"{score} is not a name with a known direction; {ONLY_ZERO_AND_ONE}")
    if direction.despite is not None:
        caveats.append(
            f"a {direction.better} {score} is better, as stated, but {direction.despite}"
        )
    return caveats


def _find_caveats(base: SampleSet, cand: SampleSet, pairing: SamplePairing) -> list[str]:
    caveats = [
        f"{key} differs: base {base.lineage[key]}, candidate {cand.lineage[key]}"
        for key in SAME_LINEAGE
        if base.lineage.keys() & cand.lineage.keys() & {key}
        and base.lineage[key] != cand.lineage[key]
    ]
    if bool(base.task_hashes) != bool(cand.task_hashes):
        known = "base" if base.task_hashes else "candidate"
        caveats.append(f"only the {known} says which task it ran ({TASK_HASH})")
    for name, keys in pairing.different.items():
        if keys and (name == "input" or not base.is_like(cand)):
            caveats.append(f"{len(keys)} paired samples have another {name}")
    if pairing.epoch_count > 1:
        caveats.append(f"each item counts once, by its mean over {pairing.epoch_count} epochs")
    if copies := len(pairing.copies):
        how = (
            "each input counts once, by its mean"
            if pairing.is_by_input
            else "each id counts, which is stricter here than counting each input once"
        )
        caveats.append(f"{copies} ids repeat the input of another id; {how}")
    if not pairing.is_bounded:
        caveats.append("scores are not all inside [0, 1], so an error cannot be counted as 0")
    for side, samples in (("base", base), ("candidate", cand)):
        caveats += [f"{side}: {note}" for note in samples.notes]
    return caveats
