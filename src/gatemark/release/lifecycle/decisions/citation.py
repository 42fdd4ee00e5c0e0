"""Requirements on a cited result: present, passed, of this candidate and pack, and fresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from gatemark.core.policy import Outcome
from gatemark.release.lifecycle.model.nouns import Cited, PackIdentity, ShadowPairs
from gatemark.release.lifecycle.model.release_policy import ShadowRules
from gatemark.release.lifecycle.model.stages import LANE, Evidence, lane_of
from gatemark.release.lifecycle.model.state import Asset, LifecycleState, Track

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def short(digest: str) -> str:
    """Return the first digits of a digest or result id."""
    return digest.removeprefix("sha256:")[:12]


def bound_results(track: Track, result_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the results behind a step: those cited before and now, sorted."""
    return tuple(sorted({*track.result_ids, *result_ids}))


def citation_problems(
    result_ids: Sequence[str],
    evidence: Mapping[str, Cited],
    digest: str,
    *,
    verdict: Outcome = "pass",
) -> list[str]:
    """Return the problems of each citation: missing, not passed, or about another candidate."""
    problems = []
    for result_id in result_ids:
        cited = evidence.get(result_id)
        if cited is None:
            problems.append(f"result {short(result_id)} is not in the store")
        elif cited.verdict != verdict:
            problems.append(f"result {short(result_id)} must be {verdict}, got {cited.verdict}")
        elif cited.candidate_digest is None:
            problems.append(f"result {short(result_id)} names no candidate")
        elif cited.candidate_digest != digest:
            problems.append(
                f"result {short(result_id)} is about another candidate "
                f"({short(cited.candidate_digest)}, not {short(digest)})"
            )
    return problems


def find_required_pack_result(
    result_ids: Sequence[str], evidence: Mapping[str, Cited], wanted: PackIdentity | None
) -> Cited | None:
    """Return the newest cited result of the required pack of record."""
    fitting = [
        evidence[result_id]
        for result_id in result_ids
        if result_id in evidence and evidence[result_id].pack == wanted
    ]
    return max(fitting, key=lambda cited: cited.answered_at or _LONG_AGO, default=None)


class PromotionCase(msgspec.Struct, frozen=True):
    """A request to promote a version, and everything that decides it."""

    state: LifecycleState
    environment: str
    version: str
    result_ids: tuple[str, ...]
    evidence: Mapping[str, Cited]
    now: datetime
    actor: str
    """The person who takes the step."""

    @property
    def track(self) -> Track:
        return self.state.asset.track(self.environment, self.version)

    @property
    def digest(self) -> str:
        return self.state.asset.versions[self.version].digest

    @property
    def required_pack_result(self) -> Cited | None:
        """The newest cited result of the required pack."""
        wanted = self.state.asset.required_pack
        return find_required_pack_result(self.result_ids, self.evidence, wanted)


def lane_problem(state: LifecycleState, full: Cited | None) -> str | None:
    """Return why a result does not make the lane of an asset a candidate for discussion.

    No other asset can rest on the pack of a lane, or a lane would get authority by another name.
    """
    lane = lane_of(state.asset.name)
    if full is not None and full.is_of_lane and state.asset.kind != LANE:
        return (
            f"result {short(full.id)} is of a pack for an advisory lane, which promotes no "
            f"{state.asset.kind}; register the lane as an asset: gatemark asset add --kind lane"
        )
    if state.asset.kind != LANE or full is None or lane in full.candidate_lanes:
        return None
    return (
        f"by result {short(full.id)} the lane {lane} is not a candidate for discussion; see "
        f"why: gatemark show {short(full.id)}"
    )


def evidence_problems(case: PromotionCase, need: Evidence) -> list[str]:
    """Return why the citations do not support a step that needs ``need``."""
    if need == "none":
        return ["nothing is cited for this step"] if case.result_ids else []
    verdict: Outcome = "fail" if need == "failed_required_pack" else "pass"
    if not case.result_ids:
        return ["a result must be cited"]
    problems = citation_problems(case.result_ids, case.evidence, case.digest, verdict=verdict)
    if need in ("original", "earlier") or problems:
        return problems
    problems.extend(_check_required_pack(case))
    problem = lane_problem(case.state, case.required_pack_result)
    if problem is not None and verdict == "pass":
        problems.append(problem)
    if need == "shadow":
        problems.extend(_check_shadow(case))
    return problems


def _check_required_pack(case: PromotionCase) -> list[str]:
    problem = required_pack_problem(case.state.asset, case.result_ids, case.evidence)
    full = case.required_pack_result
    if problem is not None or full is None:
        return [str(problem)]
    return _check_freshness(case, full)


def required_pack_problem(
    asset: Asset, result_ids: Sequence[str], evidence: Mapping[str, Cited]
) -> str | None:
    """Return why no cited result is of the required pack of an asset, or None if one is."""
    wanted = asset.required_pack
    if wanted is None:
        return f"{asset.name} has no required pack of record"
    if find_required_pack_result(result_ids, evidence, wanted) is None:
        return _explain_missing_pack(result_ids, evidence, wanted)
    return None


def _check_freshness(case: PromotionCase, full: Cited) -> list[str]:
    """Return why a result is too old, too new, or of unknown age."""
    policy, made_at = case.state.policy, full.answered_at
    if made_at is None:
        return [
            f"result {short(full.id)} does not say when its answers were given, so they may be "
            "old; run the pack on its target, or state it: gatemark run --answered-at TIME"
        ]
    problems = []
    if made_at > case.now + timedelta(seconds=policy.clock_skew_seconds):
        problems.append(f"result {short(full.id)} is from the future ({made_at:%Y-%m-%dZ})")
    age = case.now - made_at
    if age > timedelta(hours=policy.evidence_max_age_hours):
        problems.append(
            f"result {short(full.id)} must be at most {policy.evidence_max_age_hours:g} h old, "
            f"got {age.total_seconds() / 3600:.1f} h"
        )
    fell_at = case.track.fell_at
    if fell_at is not None and made_at <= fell_at:
        problems.append(
            f"result {short(full.id)} is older than the demotion at {fell_at:%Y-%m-%d %H:%M:%SZ}; "
            "only a new required-pack result can promote it again"
        )
    return problems


def _explain_missing_pack(
    result_ids: Sequence[str], evidence: Mapping[str, Cited], wanted: PackIdentity
) -> str:
    """Return a message that no result is of the required pack, and how the nearest one differs."""
    message = f"no cited result ran the required pack {wanted.pack} v{wanted.version} as it is now"
    found = [
        (words, result_id)
        for result_id in result_ids
        if (words := _list_differences(evidence[result_id].pack, wanted))
    ]
    words, result_id = min(found, key=lambda one: len(one[0]))
    return f"{message}: result {short(result_id)} has {' and '.join(words)}"


def _list_differences(found: PackIdentity, wanted: PackIdentity) -> list[str]:
    pairs = (
        ("another pack", found.pack, wanted.pack),
        ("another version of it", found.version, wanted.version),
        ("other rules", found.policy, wanted.policy),
        ("other data", found.snapshots, wanted.snapshots),
        ("another way to ask or score", found.definition, wanted.definition),
    )
    return [words for words, here, there in pairs if here != there]


def _check_shadow(case: PromotionCase) -> list[str]:
    asset, policy = case.state.asset, case.state.policy
    live = asset.place(case.environment).enabled
    since = case.track.since
    if live is None or since is None:
        return ["no version is enabled to compare a canary with"]
    problems = []
    dwelt = (case.now - since).total_seconds() / 3600
    if dwelt < policy.shadow_min_hours:
        problems.append(f"shadow must last {policy.shadow_min_hours:g} h, got {dwelt:.1f} h")
    if policy.shadow is not None:
        pairs = [one for name, one in case.track.shadowed if name == live]
        problems.extend(_check_pair(pairs, policy.shadow, live))
    baseline = asset.versions[live].digest
    fitting = [
        cited
        for cited in (case.evidence[result_id] for result_id in case.result_ids)
        if (cited.answered_at or _LONG_AGO) >= since and cited.baseline_digest == baseline
    ]
    if not fitting:
        problems.append(
            f"no cited result compares with the live version {live} and was made in shadow, "
            f"by answers given after {since:%Y-%m-%d %H:%M:%SZ}"
        )
    return problems


def _check_pair(pairs: Sequence[ShadowPairs], rules: ShadowRules, live: str) -> list[str]:
    """Return what the paired measurements with the live version fail to show."""
    n = sum(one.n for one in pairs)
    if n < rules.min_pairs:
        return [
            f"shadow must have {rules.min_pairs} pairs with {live}, got {n} (gatemark shadow push)"
        ]
    problems = []
    agreement = sum(one.agreed for one in pairs) / n
    if rules.agreement_min is not None and agreement < rules.agreement_min:
        problems.append(
            f"shadow must agree with {live} in {rules.agreement_min:.4g} of pairs, "
            f"got {agreement:.4g} (n={n})"
        )
    rise = sum(one.candidate_errors - one.live_errors for one in pairs) / n
    if rules.error_rise_max is not None and rise > rules.error_rise_max:
        problems.append(
            f"shadow may have at most {rules.error_rise_max:.4g} more errors than {live}, "
            f"got {rise:.4g} (n={n})"
        )
    for word, bound in (("latency_ms", rules.latency_ratio_max), ("cost", rules.cost_ratio_max)):
        if bound is not None:
            problems.extend(_check_ratio(pairs, word, bound))
    return problems


def _check_ratio(pairs: Sequence[ShadowPairs], word: str, bound: float) -> list[str]:
    sums = {"candidate": 0.0, "live": 0.0}
    for one in pairs:
        for arm in sums:
            mean = getattr(one, f"{arm}_{word}")
            if mean is None:
                return [f"shadow: {word} of the {arm} was not measured in every span"]
            sums[arm] += mean * one.n
    if sums["candidate"] > bound * sums["live"]:
        return [
            f"shadow: {word} may be at most {bound:g} times that of the live version, "
            f"got {sums['candidate']:.4g} to {sums['live']:.4g} in all"
        ]
    return []
