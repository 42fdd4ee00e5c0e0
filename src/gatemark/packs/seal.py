"""Seal the result of a run and store it with everything it depends on.

Sealed results also freeze a pack: a name and version stand for one content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.canonical import canonical_bytes, digest, digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.core.measurement import EvidenceFile
from gatemark.core.policy import Bench, Waiver
from gatemark.core.reason import ReasonKind
from gatemark.core.result import PACK_BLOB, AnswerTime, AssetRef, Blob, Cost, PackRef, Result, seal
from gatemark.evidence.exam import runtime_versions
from gatemark.evidence.result_rules import name_pack_rules
from gatemark.evidence.rows import write_rows
from gatemark.evidence.settings_file import place_in, settings_text
from gatemark.packs.answering import ArmAnswers
from gatemark.packs.arms import ArmSource
from gatemark.packs.conditions import (
    ASKED,
    CACHED,
    CHANGED,
    IN_PROCESS,
    MODELS,
    OTHER_SCORING,
    RESUMED,
    SAME_ARMS,
    UNASKED,
    read_conditions,
)
from gatemark.packs.embeddings import name_vectors
from gatemark.packs.exam_suites import SuiteOutcome
from gatemark.packs.graders import Graders
from gatemark.packs.judge import PackDecision, judge_pack
from gatemark.packs.judge_qualification import SuiteQualification
from gatemark.packs.judge_replies import LICENCE, name_replies
from gatemark.packs.limited_runs import read_limit
from gatemark.packs.pack import Pack, SuiteSpec, read_pack
from gatemark.packs.pack_evidence import PackEvidence
from gatemark.packs.pack_file import (
    BASELINE,
    CANDIDATE,
    OpenPack,
    describe_scoring,
    digest_scorer_code,
)
from gatemark.packs.pooled_drop import POOLED
from gatemark.packs.recorded_scores import find_other_scoring
from gatemark.targets.journal import KEY_VARIABLE, Reuse
from gatemark.workspace import Workspace

NO_BASELINE: Final = ReasonKind("no_baseline", "the pack says that there is no baseline")
LINES_TYPE = "application/jsonl"
BASELINE_CHOSEN = "baseline.chosen"
JUDGED_AGAIN = "judged_again"
"""Runtime key of a result: the earlier result whose evidence ``gatemark gate`` judged."""
LABELS = "labels."
SCORER_CODE = "scorer_code."
"""Runtime keys of a result, by suite: the labels of its judge, and the code of its scorer."""
CELL = "matrix.cell"
"""Runtime key of a result: which candidate of a matrix it judges."""
EVIDENCE_TYPE = "application/octet-stream"
MAX_LISTED = 20
_MEDIA_TYPES = {".json": "application/json", ".jsonl": LINES_TYPE}


def find_arm_conditions(
    arms: Mapping[str, ArmSource],
    arm_answers: Mapping[str, ArmAnswers],
    graders: Graders,
    *graded: str,
    suites: Sequence[SuiteSpec],
) -> dict[str, str]:
    """Return the conditions that follow from how the arms were called, the candidate's first.

    ``graded`` names what graders were asked about, if the verdict does not depend on all of it.
    """
    changed = {name: arm.changed_files() for name, arm in arms.items()}
    changed |= {f"judge {name}": files for name, files in graders.changed_files().items()}
    conditions: dict[str, dict[str, None]] = {}
    for arm in arms.values():
        for name, why in arm.conditions.items():
            conditions.setdefault(name, {})[why] = None
    for name, files in changed.items():
        if files:
            why = f"{name}: {', '.join(files[:MAX_LISTED])} changed during the run; run it again"
            conditions.setdefault(CHANGED, {})[why] = None
    if BASELINE in arms and arms[CANDIDATE].identity == arms[BASELINE].identity:
        why = "candidate and baseline are the same, so nothing was compared"
        conditions.setdefault(SAME_ARMS, {})[why] = None
    if BASELINE in arms:
        other = find_other_scoring(suites, (arms[BASELINE].scores_for, arms[CANDIDATE].scores_for))
        if other is not None:
            conditions.setdefault(OTHER_SCORING, {})[other] = None
    reused: dict[str, int] = {}
    for name, answers in arm_answers.items():
        if len(answers.models) > 1 and arms[name].spec.is_unpinned_endpoint:
            why = (
                f"{name}: several models answered ({', '.join(answers.models[:MAX_LISTED])}); name "
                "one of them, or vouch for the mixture with version: in the target"
            )
            conditions.setdefault(MODELS, {})[why] = None
        reused[f"answers of the {name}"] = answers.reused_count
    reused |= {f"replies of {who}": count for who, count in graders.reused_counts(*graded).items()}
    conditions |= _find_reuse_condition(reused, *graders.reuse())
    return {name: "; ".join(reasons) for name, reasons in conditions.items()}


def _find_reuse_condition(
    reused: Mapping[str, int], reuse: Reuse, is_authenticated: bool
) -> dict[str, dict[str, None]]:
    """Return the condition on reused answers, and whether they could have been forged."""
    name, flag = (CACHED, "--cache") if reuse == "cache" else (RESUMED, "--resume")
    reasons = [f"{count} {what} were reused ({flag})" for what, count in reused.items() if count]
    if reasons and not is_authenticated:
        reasons.append(
            f"reused answers are not authenticated: code that can write into the store can forge "
            f"them (set {KEY_VARIABLE}, or run without {flag})"
        )
    return {name: dict.fromkeys(reasons)} if reasons else {}


class PackRun(msgspec.Struct, frozen=True):
    """A finished run: who answered, the answers, and the exams."""

    opened: OpenPack
    arms: Mapping[str, ArmSource]
    arm_answers: Mapping[str, ArmAnswers]
    exams: dict[str, SuiteOutcome]
    qualifications: dict[str, SuiteQualification]
    judge_cost: tuple[int, float | None]
    limit: int | None
    conditions: dict[str, str] = {}
    names: dict[str, AssetRef] = {}
    baseline_how: str | None = None
    """How a baseline other than the pack's own was chosen."""
    answer_time: AnswerTime | None = None
    reused: dict[str, str] = {}
    """What an earlier result, judged again, says about reused answers."""
    judged_again: str | None = None
    """The result whose evidence is judged by another pack."""
    cell: str | None = None
    """Which candidate of a matrix was judged."""

    def written(self) -> dict[str, bytes]:
        """Return the files that this run wrote itself, by name."""
        lines = {
            f"{suite}.{arm}.jsonl": data
            for arm, answers in self.arm_answers.items()
            for suite, data in answers.lines.items()
        }
        replies = {
            name_replies(suite, arm): graded.lines()
            for arm, answers in self.arm_answers.items()
            for suite, graded in answers.graded.items()
        }
        vectors = {
            name_vectors(suite, arm): embedded.lines()
            for arm, answers in self.arm_answers.items()
            for suite, embedded in answers.embedded.items()
        }
        qualifications = {
            name_replies(suite, LICENCE): found.graded.lines()
            for suite, found in self.qualifications.items()
        }
        attachments = {
            name: data for exam in self.exams.values() for name, data in exam.attachments.items()
        }
        return {**lines, **replies, **vectors, **qualifications, **attachments}

    def evidence(self, written: Mapping[str, bytes]) -> PackEvidence:
        """Return the evidence of the run; ``written`` are the files that it wrote itself."""
        arm_answers = self.arm_answers
        return PackEvidence(
            candidate=arm_answers[CANDIDATE].answers if CANDIDATE in arm_answers else {},
            baseline=arm_answers[BASELINE].answers if BASELINE in arm_answers else None,
            files=tuple(
                EvidenceFile(name, digest_bytes(data), len(data)) for name, data in written.items()
            ),
            exams=self.exams,
            qualifications=self.qualifications,
            graded=arm_answers[CANDIDATE].graded if CANDIDATE in arm_answers else {},
            limit=self.limit,
            conditions=self.conditions,
        )


def judge_run(
    run: PackRun, written: Mapping[str, bytes], *, waivers: Sequence[Waiver], now: datetime
) -> PackDecision:
    """Judge the evidence of a run; ``written`` are the files that it wrote itself."""
    return judge_pack(run.opened, run.evidence(written), waivers=waivers, now=now)


def _list_first_page(run: PackRun) -> list[str]:
    """Return what a reader must know first: who chose the baseline, which others were tried."""
    conditions = []
    if run.baseline_how is not None:
        conditions.append(f"baseline {run.baseline_how}")
    pack = run.opened.pack
    if pack.tried > 1:
        which = "" if run.cell is None else f" ({run.cell})"
        conditions.append(
            f"one of {pack.tried} candidates{which}: drops are tested at level {pack.level:.3g} in "
            f"place of {pack.alpha:g}; scores are not corrected, so the best of several looks "
            "better than it is"
        )
    if run.answer_time is not None and run.answer_time.stated_by is not None:
        conditions.append(run.answer_time.sentence)
    return conditions


def seal_run(
    workspace: Workspace, run: PackRun, *, waivers: Sequence[Waiver], started_at: datetime
) -> Result:
    """Judge a run, seal the result, and store it with everything it depends on."""
    written = run.written()
    definition = write_definition(run.opened)
    read = [file for exam in run.exams.values() for file in exam.files]
    blobs = [
        *(Blob(name, digest_bytes(data), LINES_TYPE) for name, data in written.items()),
        *(Blob(file.name, file.digest, EVIDENCE_TYPE) for file in read),
        *(
            Blob(name, digest_bytes(data), _MEDIA_TYPES[Path(name).suffix])
            for name, data in definition.items()
        ),
    ]
    finished_at = workspace.clock()
    judged = judge_run(run, written, waivers=waivers, now=finished_at)
    caveats = (*judged.verdict.caveats, *_list_first_page(run))
    verdict = msgspec.structs.replace(judged.verdict, caveats=caveats)
    judged = msgspec.structs.replace(judged, verdict=verdict)
    result = _seal_result(
        run, judged, workspace, blobs=blobs, waivers=waivers, moments=(started_at, finished_at)
    )
    workspace.refuse_erased(result)
    for data in (*written.values(), *definition.values()):
        workspace.blobs.put(data)
    for exam in run.exams.values():
        for file in exam.files:
            workspace.blobs.put_file(Path(exam.paths[file.name]), file.digest)
    workspace.results.append(result)
    return result


def _make_references(run: PackRun) -> dict[str, AssetRef]:
    """Return candidate and baseline. A pack without targets identifies them by the evidence."""
    name = run.opened.pack.asset.name
    if not run.arms:
        evidence = {
            file.name: file.digest
            for exam in run.exams.values()
            for account in exam.accounts
            if account.checks["arm"] == CANDIDATE
            for file in account.files
        }
        found = AssetRef(f"{name}/{CANDIDATE}", digest({"evidence": evidence}))
        return {CANDIDATE: run.names.get(CANDIDATE, found)}
    return {
        arm: run.names.get(arm)
        or source.reference
        or AssetRef(f"{name}/{arm}", _digest_identity(run, arm))
        for arm, source in run.arms.items()
    }


def _digest_identity(run: PackRun, arm: str) -> str:
    """Return the digest of what answered; for an unversioned address, the model it names."""
    source = run.arms[arm]
    identity: dict[str, object] = {"target": dict(source.identity)}
    if source.spec.is_unpinned_endpoint and run.arm_answers[arm].models:
        identity["models"] = list(run.arm_answers[arm].models)
    return digest(identity)


def _list_identities(run: PackRun) -> dict[str, str]:
    """Return the identity of what answered, if somebody vouches for a registered version."""
    return {f"target.{arm}": _digest_identity(run, arm) for arm in run.names if arm in run.arms}


def _sum_cost(run: PackRun) -> Cost:
    judge_calls, judge_money = run.judge_cost
    money = [answers.cost for answers in run.arm_answers.values()] + [judge_money]
    return Cost(
        calls=sum(answers.calls for answers in run.arm_answers.values()) + judge_calls,
        money=None if None in money else sum(part or 0.0 for part in money),
    )


def _describe_scoring(run: PackRun) -> dict[str, str]:
    """Return digests of the scoring: the same answers scored differently are another result."""
    labels = {f"{LABELS}{suite}": found.labels for suite, found in run.qualifications.items()}
    code = {f"{SCORER_CODE}{suite}": pins for suite, pins in digest_scorer_code(run.opened).items()}
    return {"scoring": digest(describe_scoring(run.opened)), **code, **labels}


def _list_models(arm_answers: Mapping[str, ArmAnswers]) -> dict[str, str]:
    return {f"model.{arm}": ", ".join(a.models) for arm, a in arm_answers.items() if a.models}


def _list_packages(run: PackRun) -> dict[str, str]:
    """Return the packages that the arms were made with, besides ours."""
    return {
        f"packages.{name}": ", ".join(f"{package} {found}" for package, found in packages.items())
        for name, arm in run.arms.items()
        if (packages := arm.packages())
    }


def _count_reused(run: PackRun) -> dict[str, str]:
    """Return how many replies are older than the run."""
    how = "resumed" if RESUMED in run.conditions else "cached"
    counts = {arm: answers.reused_count for arm, answers in run.arm_answers.items()}
    return {**run.reused, **{f"{how}.{arm}": str(count) for arm, count in counts.items() if count}}


def read_reused(result: Result) -> dict[str, str]:
    """Return what a result says about replies that were older than its run."""
    names = ("cached.", "resumed.")
    return {name: said for name, said in result.runtime.items() if name.startswith(names)}


ROWS_SUFFIX: Final = ".rows.jsonl"


def write_definition(opened: OpenPack) -> dict[str, bytes]:
    """Return what is needed to judge a pack again: the pack, its rows, people's labels."""
    pack = opened.pack
    kept = {PACK_BLOB: canonical_bytes(pack)}
    for suite in pack.suites:
        if suite.dataset is not None:
            kept[suite.id + ROWS_SUFFIX] = write_rows(opened.snapshots[suite.id])
    for name, labels in opened.labels.items():
        kept[name_labels(name)] = write_rows(labels)
    return kept


def name_labels(judge: str) -> str:
    """Return the name of a judge's labels in a result."""
    return f"labels/{judge}{ROWS_SUFFIX}"


def make_title(pack: Pack) -> str:
    """Return the title of every result of a pack."""
    return f"{pack.asset.name} ({pack.asset.kind}), pack {pack.name} v{pack.version}"


def _seal_result(
    run: PackRun,
    judged: PackDecision,
    workspace: Workspace,
    *,
    blobs: Sequence[Blob],
    waivers: Sequence[Waiver],
    moments: tuple[datetime, datetime],
) -> Result:
    pack, references = run.opened.pack, _make_references(run)
    numbers = {number.key: number for number in judged.measurements}
    total = numbers["bench", None]
    pooled = numbers.get((POOLED, None))
    drops = [pooled] if pooled else [n for n in judged.measurements if n.name == "regression"]
    worst = max((n.value for n in drops if n.value is not None), default=None)
    unknown = next((n.reason for n in drops if n.value is None), None)
    return seal(
        **judged.sealed_fields(),
        title=make_title(pack),
        pack=PackRef(pack.name, pack.version, digest(pack)),
        rules=name_pack_rules(suite.kind for suite in pack.suites if suite.evidence is not None),
        candidate=references[CANDIDATE],
        baseline=references.get(BASELINE),
        snapshots=run.opened.references,
        runtime={**runtime_versions(), **_describe_runtime(run)},
        bench=Bench(total.value, total.reason),
        regression=Bench(
            None if unknown or not drops else worst,
            unknown or (None if drops else NO_BASELINE()),
        ),
        blobs=tuple(blobs),
        waivers=tuple(waivers),
        started_at=moments[0],
        finished_at=moments[1],
        actor=workspace.actor,
        cost=_sum_cost(run),
    )


def _describe_runtime(run: PackRun) -> dict[str, str]:
    """Return what the result says about the run besides the versions of packages."""
    facts = {BASELINE_CHOSEN: run.baseline_how, JUDGED_AGAIN: run.judged_again, CELL: run.cell}
    return {
        **run.opened.commit,
        **_list_models(run.arm_answers),
        **_list_packages(run),
        **_count_reused(run),
        **_describe_scoring(run),
        **_list_identities(run),
        **({} if run.answer_time is None else run.answer_time.runtime()),
        **{name: text for name, text in facts.items() if text is not None},
    }


def read_pack_of_result(workspace: Workspace, result: Result) -> Pack:
    """Return the pack that a result keeps."""
    for blob in result.blobs:
        if blob.name == PACK_BLOB:
            data = workspace.blobs.get(blob.digest)
            return read_pack(data, result.pack.digest, f"result {result.id}: {PACK_BLOB}")
    raise BadInputError(f"result {result.id} is not of a pack, so it cannot be a baseline")


# The name and version of a pack stand for one content as long as a store has its results.
# Otherwise a pack could be loosened after a bad verdict and pass under a trusted name.
# The content is everything that decides: rules, suites, data, judges with their labels, and
# scorers with their code. Who answers (targets, a matrix of them, evidence files) is what a
# pack examines and may change, except that a baseline must not be removed.

_EXAMINED = ("evidence", "baseline_evidence")
_REPLAY = "replay"
"""A suite over recent traffic, whose data changes every time."""
_LISTED = 5


def refuse_changed_version(workspace: Workspace, opened: OpenPack, path: str) -> None:
    """Refuse a pack whose name and version have a sealed result with other content."""
    earlier = _find_last_whole_result(workspace, opened.pack)
    if earlier is None:
        return
    changed = list(_list_changes(read_pack_of_result(workspace, earlier), earlier, opened))
    if not changed:
        return
    pack = opened.pack
    listed = ", ".join(changed[:_LISTED]) + (" and more" if len(changed) > _LISTED else "")
    line, _ = place_in(settings_text(path), "$.version")
    raise BadInputError(
        f"{path}:{line}: version {pack.version} of pack {pack.name} already has a result with "
        f"other content ({earlier.id[7:19]} of {earlier.finished_at:%Y-%m-%d %H:%MZ}); changed "
        f"since: {listed}. Set version: {pack.version + 1}; to try changes first, use --limit or "
        "another --store"
    )


def _find_last_whole_result(workspace: Workspace, pack: Pack) -> Result | None:
    """Return the newest result that a run of this pack sealed over all its items.

    Not counted: limited runs, runs with calls that could not be made or answers left out, and old
    evidence judged again.
    """
    if not workspace.has_store:
        return None
    title, results = make_title(pack), workspace.store.results
    for identity in reversed(results.ids_by_title(title).get(title, [])):
        result = results.get(identity)
        if (
            any(blob.name == PACK_BLOB for blob in result.blobs)
            and read_limit(result) is None
            and not {ASKED, IN_PROCESS, UNASKED} & set(read_conditions(result))
            and JUDGED_AGAIN not in result.runtime
        ):
            return result
    return None


def _list_changes(before: Pack, earlier: Result, opened: OpenPack) -> Iterator[str]:
    """Name the keys and data sets that differ."""
    old, new = _select_content(before), _select_content(opened.pack)
    yield from (key for key in new if new[key] != old.get(key))
    if before.has_baseline and not opened.pack.has_baseline:
        yield "targets.baseline"
    replayed = {
        evidence.checks.get("snapshot")
        for evidence in earlier.evidence
        if evidence.checks.get("kind") == _REPLAY
    }
    replays = {opened.snapshots[s.id].reference for s in opened.pack.suites if s.kind == _REPLAY}
    kept = earlier.runtime
    code = digest_scorer_code(opened)
    for suite in opened.pack.suites:
        if kept.get(SCORER_CODE + suite.id) != code.get(suite.id):
            yield f"code of the scorer of {suite.id}"
        labels = None if suite.judge is None else opened.labels[suite.judge].reference
        if kept.get(LABELS + suite.id) != labels:
            yield f"labels of judge {suite.judge}"
    differing = (set(opened.references) - replays) ^ (set(earlier.snapshots) - replayed)
    yield from sorted({name.partition("@")[0] for name in differing})


def _select_content(pack: Pack) -> dict[str, object]:
    """Return what decides in a pack, by the keys of its file."""
    fields: dict[str, object] = msgspec.to_builtins(pack)
    for examined in ("targets", "suites", "matrix", "candidates"):
        del fields[examined]
    for suite in pack.suites:
        values = msgspec.to_builtins(suite)
        free = {*_EXAMINED, "dataset"} if suite.kind == _REPLAY else {*_EXAMINED}
        fields[f"suite {suite.id}"] = {k: v for k, v in values.items() if k not in free}
    fields["suites"] = [suite.id for suite in pack.suites]
    return fields
