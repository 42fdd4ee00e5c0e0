"""Verify a guard-overhead report: recompute it from its windows and compare.

(1) The report must match the closed schema. (2) Its policy must match its digests. (3) It must be
decided by the rules of this build; a report of other rules is not decided again. (4) The policy
must match either its profile and overrides or the verifier's own policy. (5) Recompute everything
from the arms. (6) Report each value that differs as a disagreement, under the stable name of a
check.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, ExitCode, InvalidValueError, UsageError
from gatemark.core.policy import EXIT_BY_OUTCOME, Outcome
from gatemark.evidence.judge_exam import judge_exam
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import digest_source, inspect_source
from gatemark.evidence.strict_json import parse_strictly, quoted, refuse_many_containers
from gatemark.plugins.overhead.document import OverheadReport
from gatemark.plugins.overhead.examine import examine_overhead
from gatemark.plugins.overhead.options import OverheadOptions, refuse_expired
from gatemark.plugins.overhead.parameters import OverheadParameters, build_overhead_options
from gatemark.plugins.overhead.policy import OVERHEAD_RULES, RULES_SETTING
from gatemark.plugins.overhead.settings import PROFILE, PROFILES, STRICTEST, is_looser_profile
from gatemark.workspace import Workspace

MAX_REPORT_BYTES: Final = 64 * 1024 * 1024
"""Arrays and objects of a report; each takes far more memory than its two bytes."""
RELATIVE: Final = 1e-9
ABSOLUTE: Final = 1e-12
SCHEMA_CHECK: Final = "report.schema"
OVERRIDES_CHECK: Final = "policy.overrides"
PREFIXES: Final[tuple[tuple[str, str], ...]] = (
    ("guard_overhead.evaluated", "flag.evaluated"),
    ("guard_overhead.passed", "flag.passed"),
    ("guard_overhead.overhead_threshold", "policy.budget"),
    ("guard_overhead.threshold_percent", "policy.budget"),
    ("guard_overhead.tolerance", "policy.budget"),
    ("guard_overhead.mode", "policy.mode"),
    ("guard_overhead.interval", "value.interval"),
    ("guard_overhead.tail", "value.tail"),
    ("guard_overhead.noise", "value.noise"),
    ("guard_overhead.repeat", "value.repeat"),
    ("guard_overhead.checks", "findings"),
    ("guard_overhead.errors", "pairing"),
    ("guard_overhead.warnings", "words"),
    ("guard_overhead.schedule_digest", "pairing"),
    ("guard_overhead.overhead_ratio", "value.ratio"),
    ("guard_overhead.overhead_percent", "value.ratio"),
    ("guard_overhead.delta_pp", "value.ratio"),
    ("guard_overhead.overhead", "value.ratio"),
    ("guard_overhead.bare_", "value.bare"),
    ("guard_overhead.guarded_", "value.guarded"),
    ("guard_overhead", "value.other"),
    ("validation", "flag.guard_overhead_acceptable"),
    ("verdict", "verdict"),
    ("score", "value.score"),
    ("axes.quality", "axis.quality"),
    ("axes.latency", "axis.latency"),
    ("axes.memory", "axis.memory"),
    ("axes.install", "axis.install"),
    ("guards", "value.guards"),
    ("meta.bare", "arm.bare"),
    ("meta.guarded", "arm.guarded"),
    ("meta.noise", "arm.noise"),
    ("meta.repeat", "arm.repeat"),
    ("meta.costs", "costs"),
    ("meta", "meta"),
    ("resolved_policy", "policy.resolved"),
    ("policy_provenance.policy_digest", "policy.digest"),
    ("auto.policy_digest", "policy.digest"),
    ("policy_digest", "policy.digest"),
    ("policy_provenance", "policy.provenance"),
    ("auto", "policy.provenance"),
    ("findings", "findings"),
    ("blockers", "words"),
    ("caveats", "words"),
    ("checks", "words"),
    ("remedies", "words"),
    ("schema", SCHEMA_CHECK),
)
"""The check of each path of the report; the first matching prefix decides."""
CHECKS: Final = tuple(
    dict.fromkeys((SCHEMA_CHECK, OVERRIDES_CHECK, *(check for _, check in PREFIXES)))
)
NOT_COMPARED: Final = frozenset({"result_id"})
"""The id of the sealed result depends on the runtime; ``gatemark show`` checks it."""
EXACT: Final = ("budget", "bound", "level")
"""Ends of paths whose numbers are copied, not computed; they must be equal exactly."""

MISSING: Final = "(no such key)"
ACCEPTED: Final = dict.fromkeys(("reason", "owner", "evidence"), "accepted by the verifier")

State = Literal["pass", "fail", "not checked"]
PolicySource = Literal["report", "file", "profile"]


class Disagreement(msgspec.Struct, frozen=True):
    """One value of the report that differs from the recomputed one."""

    check: str
    path: str
    stored: object
    recomputed: object


class ReportVerification(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a verification."""

    schema: Literal["gatemark.overhead-verify/1"] = "gatemark.overhead-verify/1"
    report: str
    agrees: bool
    stored_verdict: str | None
    verdict: Outcome | None
    exit_code: int
    policy_source: PolicySource
    checks: dict[str, State]
    disagreements: tuple[Disagreement, ...]
    overrides: tuple[dict[str, object], ...]


class VerifyReportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A report, its files, and the policy to judge by."""

    report: str
    paths: Mapping[str, str | None]
    policy: OverheadParameters
    accept_overrides: bool = False


def verify_overhead(
    workspace: Workspace, request: VerifyReportRequest, choices: ReadingChoices
) -> ReportVerification:
    """Recompute a report and list every disagreement."""
    document = _read_report(request.report)
    # Step 1.
    try:
        stored = msgspec.convert(document, OverheadReport)
    except msgspec.ValidationError as error:
        found = [Disagreement(SCHEMA_CHECK, "$", str(error), "the closed schema")]
        return _report_verification(request, found, None, None)
    # Step 2.
    digests = list(_check_policy_digests(stored))
    # Step 3.
    settings = stored.resolved_policy.get("settings")
    recorded = settings.get(RULES_SETTING) if isinstance(settings, dict) else None
    if not digests:
        OVERHEAD_RULES.check(recorded)
    # Step 4.
    paths = _find_paths(request, stored)
    options, found = _find_options(workspace, request, stored)
    # Step 5.
    started_at = workspace.clock()
    examined = examine_overhead(paths, options, choices)
    summary = judge_exam(
        "overhead",
        examined,
        actor=workspace.actor,
        started_at=started_at,
        finished_at=workspace.clock(),
    ).summary
    # Step 6.
    found.extend(digests)
    plain = msgspec.json.decode(msgspec.json.encode(summary))
    for path, left, right in _find_differences(document, plain, ""):
        if not any(known.path == path for known in found):
            found.append(Disagreement(_find_check(path), path, left, right))
    return _report_verification(request, found, stored, summary["verdict"])


def _read_report(path: str) -> dict[str, object]:
    source = inspect_source(path)
    if source.byte_count > MAX_REPORT_BYTES:
        raise BadInputError(f"{path}: larger than {MAX_REPORT_BYTES} bytes")
    data = Path(path).read_bytes()
    refuse_many_containers(path, data)
    value, problems = parse_strictly(data, max_depth=64)
    if problems:
        raise BadInputError(tuple(f"{path}: {problem.message}" for problem in problems))
    if not isinstance(value, dict):
        raise BadInputError(f"{path}: a report must be a JSON object, got {quoted(value)}")
    try:
        msgspec.json.encode(value)
    except (UnicodeError, OverflowError) as error:
        raise BadInputError(f"{path}: not valid JSON: {error}") from error
    return value


def _find_paths(request: VerifyReportRequest, stored: OverheadReport) -> dict[str, str | None]:
    """Return the files to recompute from; look for noise and costs alongside the arms."""
    paths = dict(request.paths)
    meta = stored.meta
    for role, arm in (("bare", meta.bare), ("guarded", meta.guarded)):
        if arm.digest is not None and paths.get(role) is None:
            raise UsageError(f"the report uses a {role} arm; give the file with --{role}")
    for role, part, stated in (
        ("noise", meta.noise, "uses a second bare run"),
        ("repeat", meta.repeat, "uses a second guarded run"),
        ("costs", meta.costs, "has time or memory"),
    ):
        if part is None or paths.get(role) is not None:
            continue
        paths[role] = _find_beside(request, part.file, part.digest)
        if paths[role] is None:
            raise UsageError(f"the report {stated}; give the file with --{role}")
    return paths


def _find_beside(request: VerifyReportRequest, name: str, wanted: str | None) -> str | None:
    """Find a file by name in the folder of the report or of an arm, preferably by digest.

    A file with another digest is used too; the report then disagrees with it. A file that was
    missing when the report was made is expected to be missing.
    """
    neighbours = (request.report, request.paths.get("bare"), request.paths.get("guarded"))
    folders = [Path(neighbour).parent for neighbour in neighbours if neighbour is not None]
    candidates = [folder / Path(name).name for folder in folders]
    if wanted is None:
        return str(candidates[0])
    files = [str(candidate) for candidate in candidates if candidate.is_file()]
    right = (file for file in files if digest_source(inspect_source(file)).digest == wanted)
    return next(right, next(iter(files), None))


def _find_options(
    workspace: Workspace, request: VerifyReportRequest, stored: OverheadReport
) -> tuple[dict[str, object], list[Disagreement]]:
    """Return the options to recompute with, and disagreements about the report's own."""
    profile = request.policy.profile
    if request.policy.policy is not None or profile is not None:
        if profile is not None and is_looser_profile(profile) and not request.accept_overrides:
            raise UsageError(
                f"profile {profile} is looser than {STRICTEST}; to judge by it, "
                "add --accept-overrides"
            )
        policy = msgspec.structs.replace(request.policy, **ACCEPTED) if profile else request.policy
        return build_overhead_options(policy, workspace.clock()), []
    stated = stored.policy_provenance.overrides
    loosening = [override.field for override in stated if override.loosens]
    own = stored.policy_provenance.profile
    if PROFILE not in loosening and own in PROFILES and is_looser_profile(own):
        loosening.insert(0, PROFILE)
    place = (OVERRIDES_CHECK, "policy_provenance.overrides")
    found = []
    if loosening and not request.accept_overrides:
        wanted = "no override that loosens the profile, unless it is accepted"
        found.append(Disagreement(*place, loosening, wanted))
    plain = {"profile": stored.policy_provenance.profile, "overrides": _list_overrides(stored)}
    try:
        options = msgspec.convert(plain, OverheadOptions)
        refuse_expired(options, workspace.clock())
    except (msgspec.ValidationError, InvalidValueError, BadInputError) as error:
        found.append(Disagreement(*place, _list_overrides(stored), str(error)))
        return build_overhead_options(OverheadParameters(), workspace.clock()), found
    return msgspec.to_builtins(options), found


def _list_overrides(stored: OverheadReport) -> list[dict[str, object]]:
    return [
        {
            name: getattr(override, name)
            for name in ("field", "value", "reason", "owner", "evidence", "expires_at")
        }
        for override in stored.policy_provenance.overrides
    ]


def _check_policy_digests(stored: OverheadReport) -> Iterator[Disagreement]:
    """Compare the digest of the stored policy with the stored digests."""
    try:
        own = digest(stored.resolved_policy)
    except InvalidValueError as error:
        yield Disagreement("policy.digest", "resolved_policy", stored.policy_digest, str(error))
        return
    for path, value in (
        ("policy_digest", stored.policy_digest),
        ("auto.policy_digest", stored.auto.policy_digest),
        ("policy_provenance.policy_digest", stored.policy_provenance.policy_digest),
    ):
        if value != own:
            yield Disagreement("policy.digest", path, value, own)


def _find_check(path: str) -> str:
    return next((check for prefix, check in PREFIXES if path.startswith(prefix)), SCHEMA_CHECK)


def _find_differences(
    stored: object, found: object, path: str
) -> Iterator[tuple[str, object, object]]:
    """Yield every leaf that differs beyond rounding."""
    if isinstance(stored, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*stored, *found)):
            inner = f"{path}.{key}" if path else key
            # File names do not matter, digests do.
            is_file = inner.startswith("meta.") and key == "file"
            if inner not in NOT_COMPARED and not is_file:
                yield from _find_differences(
                    stored.get(key, MISSING), found.get(key, MISSING), inner
                )
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        for place, (left, right) in enumerate(zip(stored, found, strict=True)):
            yield from _find_differences(left, right, f"{path}[{place}]")
    elif not _is_same(stored, found, path):
        yield path, stored, found


def _is_same(left: object, right: object, path: str) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if left == right:
        return True
    are_whole = isinstance(left, int) and isinstance(right, int)
    is_copied = _find_check(path).startswith("policy.") or path.endswith(EXACT)
    if are_whole or is_copied or not isinstance(left, int | float):
        return False
    return isinstance(right, int | float) and math.isclose(
        left, right, rel_tol=RELATIVE, abs_tol=ABSOLUTE
    )


def _report_verification(
    request: VerifyReportRequest,
    found: list[Disagreement],
    stored: OverheadReport | None,
    verdict: Outcome | None,
) -> ReportVerification:
    failed = {disagreement.check for disagreement in found}
    good: State = "not checked" if stored is None else "pass"
    checks: dict[str, State] = {check: "fail" if check in failed else good for check in CHECKS}
    is_true = not found and verdict is not None
    source: PolicySource = "report" if request.policy.profile is None else "profile"
    return ReportVerification(
        report=request.report,
        agrees=is_true,
        stored_verdict=None if stored is None else stored.verdict,
        verdict=verdict,
        exit_code=EXIT_BY_OUTCOME[verdict] if is_true and verdict else ExitCode.INTEGRITY,
        policy_source="file" if request.policy.policy is not None else source,
        checks=checks,
        disagreements=tuple(found),
        overrides=() if stored is None else tuple(_list_overrides(stored)),
    )
