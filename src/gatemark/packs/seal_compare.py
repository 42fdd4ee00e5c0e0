"""Seal a comparison of two logs, and derive it again.

The samples of both sides are stored as they were read, and so are the settings. Such a result has
no pack: it can be cited, but is never the required pack that a promotion needs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec

from gatemark.core.canonical import canonical_bytes, digest, digest_bytes
from gatemark.core.errors import IntegrityError, UsageError
from gatemark.core.measurement import Evidence, EvidenceFile, Measurement, measured, unmeasured
from gatemark.core.policy import Policy, Rule, Setting, decide
from gatemark.core.reason import ReasonKind
from gatemark.core.result import AnswerTime, AssetRef, Blob, Cost, PackRef, Result, seal
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.result_rules import COMPARE_BLOB, COMPARE_RULES, is_of_this_build
from gatemark.evidence.runtime_versions import runtime_versions
from gatemark.ledger.port import BlobStore
from gatemark.packs.judge import JudgedAgain, PackDecision
from gatemark.packs.recorded_scores import read_recorded_scores
from gatemark.packs.recordings import read_recorded_rows
from gatemark.samples.compare import CompareRequest, compare_files
from gatemark.samples.compare_verdict import CompareSettings
from gatemark.samples.importer import ReadOptions
from gatemark.samples.views import ComparisonReport, Sameness
from gatemark.workspace import Workspace

NAME: Final = "compare"
COMPARISON_OPEN: Final = ReasonKind(
    "comparison_open", "the comparison does not decide: delta {delta}, p {p_value} (n={n})"
)
_SIDES: Final = ("baseline", "candidate")
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class StoredComparison(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was compared and how, as stored with the result; ``rules`` is the version that judged.

    Every field is stored, so that a default that changes changes no stored comparison.
    """

    rules: int
    score: str
    cluster: str | None
    settings: CompareSettings
    files: Sameness


class _NamedRules(msgspec.Struct):
    """The version of the rules alone; the rest may have fields of another build."""

    rules: object = None


class _Timed(msgspec.Struct):
    answered_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


def seal_comparison(
    workspace: Workspace, request: CompareRequest, *, started_at: datetime
) -> tuple[Result, ComparisonReport]:
    """Compare, seal the result, and store it with the samples."""
    if "-" in (request.base, request.cand):
        raise UsageError("--seal needs files: standard input cannot be read again")
    sides = {}
    for side, path, arm in zip(
        _SIDES,
        (request.base, request.cand),
        (request.base_arm, request.cand_arm),
        strict=True,
    ):
        options = ReadOptions(arm=arm, id_path=request.id_path, columns=dict(request.columns))
        rows, _ = read_recorded_rows(Path(path), tool=request.tool, options=options)
        sides[side] = b"".join(_ENCODER.encode(row) + b"\n" for row in rows)
    # Only the logs say which score a tool shows first, and whether they are one file.
    first = compare_files(request, ReadingChoices())
    kept = StoredComparison(
        COMPARE_RULES.current, first.score, request.cluster, request.settings, first.files
    )
    finished_at = workspace.clock()
    report, judged = _judge_sides(sides, kept, finished_at)
    definition = canonical_bytes(kept)
    references = _name_sides(sides)
    result = seal(
        **{
            **judged.sealed_fields(),
            "caveats": (*judged.verdict.caveats, *_list_scoring(judged.evidence)),
        },
        title=make_title(report),
        pack=_name_pack(definition),
        rules={COMPARE_RULES.subject: COMPARE_RULES.current},
        candidate=references[1],
        baseline=references[0],
        snapshots=(),
        runtime={**runtime_versions(), **_find_answer_time(sides["candidate"])},
        blobs=(
            *(Blob(f"{s}.jsonl", digest_bytes(sides[s]), "application/jsonl") for s in _SIDES),
            Blob(COMPARE_BLOB, digest_bytes(definition), "application/json"),
        ),
        waivers=(),
        started_at=started_at,
        finished_at=finished_at,
        actor=workspace.actor,
        cost=Cost(calls=0),
    )
    workspace.refuse_erased(result)
    for data in (*sides.values(), definition):
        workspace.blobs.put(data)
    workspace.results.append(result)
    return result, msgspec.structs.replace(
        report,
        base=msgspec.structs.replace(report.base, file=request.base),
        cand=msgspec.structs.replace(report.cand, file=request.cand),
        result_id=result.id,
    )


def _name_sides(sides: Mapping[str, bytes]) -> list[AssetRef]:
    return [
        AssetRef(f"{NAME}/{side}", digest({"recorded": digest_bytes(sides[side])}))
        for side in _SIDES
    ]


def compare_again(blobs: BlobStore, result: Result) -> JudgedAgain:
    """Derive a sealed comparison again from its samples.

    Raise OtherRulesError if it was judged by another version of the rules, and IntegrityError if
    that version was never released, or is not that of the build that the result names.
    """
    names = {blob.name: blob.digest for blob in result.blobs}
    definition = blobs.get(names[COMPARE_BLOB])
    if result.pack != _name_pack(definition):
        raise IntegrityError("its comparison is not the one that its pack names")
    try:
        named = msgspec.json.decode(definition, type=_NamedRules).rules
        COMPARE_RULES.check(named, is_own_build=is_of_this_build(result))
        kept = msgspec.json.decode(definition, type=StoredComparison)
        sides = {side: blobs.get(names[f"{side}.jsonl"]) for side in _SIDES}
    except (KeyError, msgspec.MsgspecError) as error:
        raise IntegrityError(f"{COMPARE_BLOB}: cannot be read: {error}") from error
    report, judged = _judge_sides(sides, kept, result.finished_at)
    pairs = zip(_SIDES, (result.baseline, result.candidate), _name_sides(sides), strict=True)
    others = tuple(
        f"its {side} is not the samples that it keeps" for side, said, own in pairs if said != own
    )
    return JudgedAgain(
        judged, others, title=make_title(report), caveats=_list_scoring(judged.evidence)
    )


def make_title(report: ComparisonReport) -> str:
    """Return the title of a sealed comparison."""
    return f"comparison by {report.score}"


def _list_scoring(evidence: Sequence[Evidence]) -> tuple[str, ...]:
    """Return who scored each side."""
    return tuple(f"{one.checks['arm']}: {one.checks['scoring']}" for one in evidence)


def _judge_sides(
    sides: Mapping[str, bytes], kept: StoredComparison, now: datetime
) -> tuple[ComparisonReport, PackDecision]:
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        paths = {side: Path(folder) / f"{side}.jsonl" for side in _SIDES}
        for side, data in sides.items():
            paths[side].write_bytes(data)
        request = CompareRequest(
            base=str(paths["baseline"]),
            cand=str(paths["candidate"]),
            score=kept.score,
            cluster=kept.cluster,
            settings=kept.settings,
            sameness=kept.files,
        )
        report = compare_files(request, ReadingChoices())
    policy = Policy(
        name=NAME,
        rules=(Rule(id="comparison", metric="comparison", op=">=", bound=1.0),),
        settings={
            **_list_settings(kept.settings),
            "rules": kept.rules,
            "score": report.score,
            "cluster": kept.cluster,
        },
    )
    evidence = tuple(_account_for_side(side, sides[side]) for side in _SIDES)
    numbers = _measure_report(report)
    verdict = decide(policy, evidence, numbers, (), now=now)
    return report, PackDecision(policy, numbers, (), verdict, evidence)


def _list_settings(settings: CompareSettings) -> dict[str, Setting]:
    """Return settings as a policy has them: the names of scores as one text."""
    return {
        name: ", ".join(value) if isinstance(value, tuple) else value
        for name, value in msgspec.structs.asdict(settings).items()
    }


def _measure_report(report: ComparisonReport) -> tuple[Measurement, ...]:
    """Return the verdict as a number for a rule, and the numbers behind it."""
    if report.verdict == "inconclusive":
        reason = COMPARISON_OPEN.word(
            "; ".join(report.blockers) or report.reason,
            n=report.n,
            blockers=len(report.blockers),
            delta=report.delta,
            p_value=report.p_value,
        )
        verdict = unmeasured("comparison", reason, n=report.n, direction="higher_is_better")
    else:
        verdict = measured(
            "comparison",
            float(report.verdict == "pass"),
            n=report.n,
            direction="higher_is_better",
            caveats=(report.reason,),
        )
    others = {"delta": report.delta, "p_value": report.p_value, "mde": report.mde}
    return (
        verdict,
        *(
            measured(name, value, n=report.n, direction="neutral")
            for name, value in others.items()
            if value is not None
        ),
    )


def _account_for_side(side: str, data: bytes) -> Evidence:
    rows = [msgspec.json.decode(line) for line in data.splitlines()]
    tools = sorted({one.scored_by for one in read_recorded_scores(rows).values()})
    return Evidence(
        received=len(rows),
        accepted=len(rows),
        rejected=0,
        usable=len({row["id"] for row in rows}),
        missing=0,
        expected=None,
        files=(EvidenceFile(f"{side}.jsonl", digest_bytes(data), len(data)),),
        checks={"arm": side, "scoring": f"scored by {', '.join(tools)}, not by Gatemark"},
    )


def _find_answer_time(data: bytes) -> dict[str, str]:
    """Return when the candidate's oldest answer was given, if every answer says so."""
    times = [row.answered_at for row in msgspec.json.Decoder(_Timed).decode_lines(data)]
    known = [moment.astimezone(UTC) for moment in times if moment is not None]
    return AnswerTime(min(known)).runtime() if known and len(known) == len(times) else {}


def _name_pack(definition: bytes) -> PackRef:
    return PackRef(NAME, 1, digest({"compare": digest_bytes(definition)}))
