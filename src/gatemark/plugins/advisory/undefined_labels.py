"""Labels and bucket rules of records that the policy does not define."""

from __future__ import annotations

from gatemark.core.record import Problem
from gatemark.plugins.advisory.confidence_buckets import choose_bucket
from gatemark.plugins.advisory.exam_state import AdvisoryExamState, list_lanes
from gatemark.plugins.advisory.policy import AdvisoryPolicy, make_lane_name
from gatemark.plugins.advisory.record import AdvisoryDecision


def find_undefined(record: AdvisoryDecision, policy: AdvisoryPolicy) -> list[Problem]:
    """Return labels and bucket rules that the policy does not define, without values."""
    lane = make_lane_name(record.input_class, record.service.name)
    known = policy.taxonomy(lane)
    found = []
    for path, label in (
        ("$.recommendation.label", record.recommendation.label),
        ("$.human_or_atlas_decision.label", record.human_or_atlas_decision.label),
    ):
        if label and not known.knows(label):
            allowed = ", ".join((*known.labels, *known.aliases))
            found.append(Problem(path, f"the policy knows no such label (it has: {allowed})"))
    confidence = record.confidence
    edges = policy.bucket_rules.get(confidence.bucket_rule)
    if edges is None:
        rules = ", ".join(policy.bucket_rules)
        found.append(
            Problem("$.confidence.bucket_rule", f"the policy knows no such rule (it has: {rules})")
        )
    elif confidence.score or confidence.score == 0:
        expected = choose_bucket(confidence.score, edges)
        if confidence.bucket != expected:
            found.append(
                Problem("$.confidence.bucket", f"must be {expected}, got {confidence.bucket}")
            )
    return found


def has_undefined(
    state: AdvisoryExamState, policy: AdvisoryPolicy, known_rules: frozenset[str]
) -> bool:
    """Whether some records use a label or bucket rule that is not among those that are known."""
    taxonomies = {lane: policy.taxonomy(lane) for lane in list_lanes(state)}
    explained = {
        lane: {*taxonomy.labels, *taxonomy.aliases, None} for lane, taxonomy in taxonomies.items()
    }
    return any(
        kind.bucket_rule not in known_rules
        or not {kind.label, kind.reference_label} <= explained[kind.lane]
        for kind in state.kinds
    )
