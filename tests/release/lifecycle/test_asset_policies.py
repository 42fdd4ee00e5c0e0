"""The release policy may say something else for some assets, by name or by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import BadInputError
from gatemark.release.lifecycle.default_policy import default_digest, default_document
from gatemark.release.lifecycle.model.release_policy import policy_for, recorded_policy
from gatemark.release.lifecycle.policy_file import (
    policy_text,
    read_release_policy,
    release_policy_from,
)

RARE = {"names": ["rare-*"], "set": {"canary": {"min_samples": 10, "lateness_minutes": 240}}}


def policy(*assets: dict[str, Any], **more: Any) -> Any:
    return release_policy_from({"gatemark_release": 1, "assets": list(assets), **more}, "p.yaml")


def test_a_pattern_of_names_changes_only_what_it_names() -> None:
    found = policy(RARE, canary={"clean_windows": 3})
    rare = policy_for(found, "rare-language", "prompt")
    usual = policy_for(found, "triage", "prompt")
    assert (rare.canary.min_samples, rare.canary.lateness_minutes) == (10, 240)
    assert (rare.canary.clean_windows, rare.canary.metrics) == (3, usual.canary.metrics)
    assert (usual.canary.min_samples, usual.canary.lateness_minutes) == (50, 15)


def test_names_and_kinds_must_both_fit_and_the_first_entry_counts() -> None:
    both = {"names": ["desk-*"], "kinds": ["tool"], "set": {"shadow_min_hours": 1}}
    tools = {"kinds": ["tool"], "set": {"shadow_min_hours": 2}}
    found = policy(both, tools)
    hours = [
        policy_for(found, name, kind).shadow_min_hours
        for name, kind in (("desk-a", "tool"), ("other", "tool"), ("desk-a", "prompt"))
    ]
    assert hours == [1, 2, 24]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"set": {"watch_hours": 1}}, "needs names or kinds"),
        ({"names": ["a"], "set": {}}, "needs members to set"),
        ({"names": ["a"], "set": {"clock_skew_seconds": 1}}, "clock_skew_seconds cannot be set"),
        ({"names": ["a"], "set": {"canary": {"min_sample": 1}}}, "min_sample"),
        ({"names": ["a"], "set": {"shadow_min_hours": -1}}, r"assets\[0\].set"),
        ({"names": ["a"], "set": {"gates": {"eval": {"stages": []}}}}, "gates.eval: must block"),
        ({"names": ["a"], "kinds": ["cat"], "set": {"watch_hours": 1}}, r"assets\[0\].kinds"),
    ],
)
def test_an_entry_that_cannot_hold_is_refused_when_it_is_read(
    entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        policy(entry)


def test_a_policy_with_entries_survives_being_written_out(tmp_path: Path) -> None:
    found = policy(RARE)
    path = tmp_path / "release.yaml"
    path.write_text(policy_text(found), encoding="utf-8")
    assert read_release_policy(str(path)).digest == found.digest


def test_a_file_leaves_out_what_is_as_in_the_default() -> None:
    assert release_policy_from({"gatemark_release": 1}, "p.yaml").digest == default_digest()
    off = release_policy_from({"gatemark_release": 1, "shadow": None}, "p.yaml")
    assert off.shadow is None


def test_the_default_measures_shadows_and_waits_one_window_for_late_samples() -> None:
    found = recorded_policy(default_document())
    assert found.shadow is not None
    assert found.shadow_min_hours == 24
    assert found.canary.lateness_minutes == found.canary.window_minutes
