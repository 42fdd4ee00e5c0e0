from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.plugins.advisory.category import (
    CATEGORIES,
    COMPARABLE,
    SEVERITY_ORDER,
    CategoryKey,
    categorize,
    categorize_signal,
    is_stated,
    state_outcome,
)
from gatemark.plugins.advisory.confidence_buckets import BUCKETS, choose_bucket
from gatemark.plugins.advisory.record import AdvisoryDecision
from gatemark.plugins.advisory.record_examples import AGREEING, change_record
from gatemark.plugins.advisory.taxonomy import Taxonomy

from .decisions import compared_parts

LABELS = Taxonomy().labels
AGREED = CategoryKey(
    "suppress", "info", "high", "fixture_expected", "suppress", "info", applicable=True
)


def parts(**changes: Any) -> CategoryKey:
    return msgspec.structs.replace(AGREED, **changes)


@pytest.mark.parametrize(
    ("score", "bucket"),
    [
        (0.0, "very_low"),
        (math.nextafter(0.40, 0), "very_low"),
        (0.40, "low"),
        (0.595, "low"),
        (0.60, "medium"),
        (0.799, "medium"),
        (0.80, "high"),
        (math.nextafter(0.95, 0), "high"),
        (0.95, "very_high"),
        (1.0, "very_high"),
        (None, "unknown"),
    ],
)
def test_each_bucket_begins_at_its_edge(score: float | None, bucket: str) -> None:
    assert choose_bucket(score) == bucket


@pytest.mark.parametrize("score", [-0.01, 1.7, math.nan, math.inf])
def test_a_score_outside_the_unit_interval_has_no_bucket(score: float) -> None:
    with pytest.raises(InvalidValueError, match=r"\[0, 1\]"):
        choose_bucket(score)


@pytest.mark.parametrize(
    ("changes", "category"),
    [
        ({}, "agree"),
        ({"severity": "low"}, "agree"),
        ({"reference_severity": None, "severity": "critical"}, "agree"),
        ({"severity": "medium"}, "severity_overcall"),
        ({"severity": "none", "reference_severity": "low"}, "severity_undercall"),
        ({"label": "escalate"}, "false_positive"),
        ({"reference_label": "escalate"}, "false_negative"),
        ({"label": "log"}, "disagree"),
        ({"reference_label": "needs_human"}, "false_negative"),
        ({"reference_label": "unknown"}, "disagree"),
        ({"label": "escalate", "reference_label": "summarize"}, "disagree"),
        ({"label": "needs_human", "reference_label": "needs_human"}, "uncertain"),
        ({"bucket": "low", "label": "escalate"}, "uncertain"),
        ({"bucket": "very_low"}, "uncertain"),
        ({"bucket": "unknown"}, "uncertain"),
        ({"reference_source": "missing", "reference_label": None}, "missing_reference"),
        ({"reference_source": "missing", "bucket": "low"}, "missing_reference"),
        ({"reference_source": "atlas_shadow"}, "missing_reference"),
        ({"applicable": False, "reference_source": "missing"}, "not_applicable"),
        ({"applicable": False, "reference_source": "atlas_shadow"}, "not_applicable"),
    ],
)
def test_categories_follow_their_order(changes: dict[str, Any], category: str) -> None:
    assert categorize(parts(**changes)) == category


def test_an_atlas_decision_is_a_signal_and_no_reference() -> None:
    seen = parts(reference_source="atlas_shadow", reference_label="escalate")
    assert (categorize(seen), categorize_signal(seen)) == ("missing_reference", "false_negative")


@settings(deadline=None, max_examples=200)
@given(
    st.builds(
        CategoryKey,
        label=st.sampled_from(LABELS),
        severity=st.sampled_from(SEVERITY_ORDER),
        bucket=st.sampled_from(BUCKETS),
        reference_source=st.sampled_from(["fixture_expected", "human_label", "atlas_shadow"]),
        reference_label=st.sampled_from(LABELS),
        reference_severity=st.none() | st.sampled_from(SEVERITY_ORDER),
        applicable=st.booleans(),
    )
)
def test_every_record_has_one_category_and_states_it_back(seen: CategoryKey) -> None:
    category = categorize(seen)
    assert category in CATEGORIES
    assert is_stated(category, *state_outcome(category))
    assert is_stated(category, state_outcome(category)[0], "unsafe_authority")
    others = [other for other in CATEGORIES if other != category]
    assert not any(is_stated(category, *state_outcome(other)) for other in others)


def test_the_agreement_denominator_has_six_categories() -> None:
    assert len(COMPARABLE) == 6
    assert set(CATEGORIES) - set(COMPARABLE) == {
        "uncertain",
        "missing_reference",
        "not_applicable",
    }


def test_a_label_nobody_knows_is_refused_and_never_guessed() -> None:
    with pytest.raises(InvalidValueError, match="must be one of suppress"):
        categorize(parts(label="panic"))
    assert not Taxonomy().knows("panic")


def test_a_lane_may_have_labels_of_its_own() -> None:
    lane = Taxonomy(action=("wake_operator",), aliases={"quiet": "suppress"})
    assert categorize(parts(label="wake_operator"), lane) == "false_positive"
    assert categorize(parts(label="quiet"), lane) == "agree"
    assert lane.knows("quiet")
    assert not lane.knows("escalate")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"action": ("suppress",)}, "more than one meaning"),
        ({"deferred": ()}, "needs no_op, action and deferred"),
        ({"aliases": {"quiet": "silence"}}, "has no meaning"),
        ({"aliases": {"log": "suppress"}}, "has a meaning and is an alias"),
    ],
)
def test_a_taxonomy_that_contradicts_itself_is_refused(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidValueError, match=message):
        Taxonomy(**fields)


@pytest.mark.parametrize(
    ("changes", "category"),
    [
        ({}, "agree"),
        ({"human_or_atlas_decision": {"source": "missing"}}, "missing_reference"),
        ({"service.mode": "health_only"}, "not_applicable"),
        ({"source.kind": "service_health_probe"}, "not_applicable"),
    ],
)
def test_the_parts_of_a_record_give_its_category(changes: dict[str, Any], category: str) -> None:
    record = msgspec.convert(change_record(AGREEING, changes), AdvisoryDecision)
    assert categorize(compared_parts(record)) == category
