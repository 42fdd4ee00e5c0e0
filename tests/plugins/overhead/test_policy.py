"""Profiles, overrides and the digest that covers all of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.plugins.overhead.options import OverheadOptions, refuse_expired, resolve_settings
from gatemark.plugins.overhead.policy import build_policy
from gatemark.plugins.overhead.settings import PROFILES, OverheadSettings, Override, loosens

from .arms import ppl_pair

Run = Callable[..., Any]
WHY = {"reason": "pilot", "owner": "ada", "evidence": "runs/7"}


def with_override(field: str, value: Any, **why: Any) -> OverheadOptions:
    return OverheadOptions(overrides=(Override(field, value, **why),))


def test_release_and_ci_allow_one_percent() -> None:
    assert PROFILES["release"].budget == PROFILES["ci"].budget == 0.01
    assert PROFILES["dev"].budget > 0.01
    assert OverheadOptions().profile == "release"
    assert {settings.mode for settings in PROFILES.values()} == {"point"}
    assert {settings.on_unmeasured for settings in PROFILES.values()} == {"inconclusive"}


LOOSER = {
    "budget": 0.02,
    "improvement_max": 0.5,
    "on_unmeasured": "soft_pass",
    "tolerance": 1e-7,
    "level": 0.6,
    "resamples": 99,
    "observer_guards": True,
    "unseen_damage": 0.1,
    "min_windows": 50,
    "min_tokens": 500,
}
STRICTER = {
    "budget": 0.0,
    "mode": "interval",
    "on_unmeasured": "fail",
    "improvement_max": 0.01,
    "tail_p95_max": 0.1,
    "tail_worst_max": 0.2,
    "latency_budget": 0.1,
    "memory_budget": 0.1,
    "install_budget": 100.0,
    "resamples": 20_000,
}


@pytest.mark.parametrize(("field", "value"), LOOSER.items())
def test_a_looser_setting_needs_reason_owner_and_evidence(field: str, value: Any) -> None:
    for missing in WHY:
        why = {name: text for name, text in WHY.items() if name != missing}
        with pytest.raises(InvalidValueError, match="needs a reason, an owner and an evidence"):
            with_override(field, value, **why)
        with pytest.raises(InvalidValueError):
            with_override(field, value, **why, **{missing: "  "})
    assert getattr(resolve_settings(with_override(field, value, **WHY)), field) == value


@pytest.mark.parametrize(("field", "value"), STRICTER.items())
def test_a_stricter_setting_needs_none(field: str, value: Any) -> None:
    assert getattr(resolve_settings(with_override(field, value)), field) == value


def test_taking_a_stricter_setting_back_loosens() -> None:
    strict = msgspec.structs.replace(PROFILES["release"], **STRICTER)
    for field in STRICTER:
        back = msgspec.structs.replace(strict, **{field: getattr(PROFILES["release"], field)})
        assert loosens(strict, back, field), field
        assert not loosens(PROFILES["release"], strict, field), field
        assert not loosens(strict, strict, field), field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("budget", 99.0),
        ("budget", -0.01),
        ("budget", "banana"),
        ("budget", None),
        ("budget", True),
        ("mode", "vibes"),
        ("tolerance", 0.1),
        ("level", 1.0),
        ("resamples", 3),
        ("min_windows", 0),
        ("latency_budget", -1.0),
        ("on_unmeasured", "pass"),
        ("skip", True),
    ],
)
def test_no_justification_makes_nonsense_valid(field: str, value: Any) -> None:
    with pytest.raises((InvalidValueError, msgspec.ValidationError)):
        with_override(field, value, **WHY)


def test_a_setting_is_overridden_once() -> None:
    with pytest.raises(InvalidValueError, match="more than once"):
        OverheadOptions(overrides=(Override("budget", 0.001), Override("budget", 0.002)))


def test_every_setting_and_every_word_of_an_override_is_in_the_digest() -> None:
    changed = STRICTER | LOOSER
    assert set(changed) == set(OverheadSettings.__struct_fields__)
    ending = {"expires_at": datetime(2030, 1, 1, tzinfo=UTC)}
    policies = [
        OverheadOptions(),
        OverheadOptions(profile="ci"),
        OverheadOptions(noise=True),
        *(with_override(field, value, **WHY) for field, value in changed.items()),
        *(with_override("budget", 0.02, **(WHY | {word: "other"})) for word in WHY),
        with_override("budget", 0.02, **WHY, **ending),
    ]
    assert len({build_policy(options).digest for options in policies}) == len(policies)


@settings(deadline=None, max_examples=50)
@given(st.floats(0, 0.5), st.floats(0, 0.5))
def test_two_budgets_share_a_digest_only_when_they_are_equal(one: float, other: float) -> None:
    digests = {build_policy(with_override("budget", value, **WHY)).digest for value in (one, other)}
    assert (len(digests) == 1) is (one == other)


def test_overrides_end() -> None:
    moment = datetime(2027, 1, 1, tzinfo=UTC)
    options = with_override("budget", 0.02, **WHY, expires_at=moment)
    refuse_expired(options, datetime(2026, 12, 31, tzinfo=UTC))
    with pytest.raises(BadInputError, match="override of budget by ada expired at 2027-01-01"):
        refuse_expired(options, moment)
    with pytest.raises(InvalidValueError, match="time zone"):
        Override("budget", 0.02, expires_at=datetime(2027, 1, 1))  # noqa: DTZ001


# The command.


def test_a_looser_budget_on_the_command_line_needs_words(gatemark: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10.2)
    refused = gatemark("score", "overhead", *arms, "--budget", 0.03)
    assert (refused.code, refused.out) == (2, "")
    assert "--reason, --owner, --evidence" in refused.err
    words = ("--reason", "pilot", "--owner", "ada", "--evidence", "runs/7")
    ran = gatemark("score", "overhead", *arms, "--budget", 0.03, *words, "--json")
    (override,) = ran.json["policy_provenance"]["overrides"]
    assert (ran.code, override["owner"], override["loosens"]) == (0, "ada", True)
    assert override["profile_value"] == 0.01
    assert ran.json["resolved_policy"]["settings"]["override.budget.evidence"] == "runs/7"
    page = tmp_path / "r.md"
    gatemark("score", "overhead", *arms, "--budget", 0.03, *words, "-o", page)
    assert "### Overrides of the profile" in page.read_text()


def test_a_looser_profile_needs_words_however_it_is_chosen(
    gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = ppl_pair(tmp_path, 10, 10.2)
    policy = tmp_path / "policy.yaml"
    policy.write_text("profile: dev\n")
    for chosen in (("--profile", "dev"), ("--policy", policy)):
        refused = gatemark("score", "overhead", *arms, *chosen)
        assert (refused.code, refused.out) == (2, "")
        assert "profile dev is looser than release" in refused.err
    monkeypatch.setenv("GATEMARK_SCORE_OVERHEAD_PROFILE", "dev")
    assert gatemark("score", "overhead", *arms).code == 2
    words = ("--reason", "pilot", "--owner", "ada", "--evidence", "runs/7")
    ran = gatemark("score", "overhead", *arms, *words, "--json")
    (override,) = ran.json["policy_provenance"]["overrides"]
    assert (ran.code, override["field"], override["value"]) == (0, "profile", "dev")
    assert (override["profile_value"], override["loosens"]) == ("release", True)
    assert ran.json["resolved_policy"]["settings"]["override.profile.owner"] == "ada"


def test_a_policy_file_may_justify_its_profile(gatemark: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10.2)
    policy = tmp_path / "policy.yaml"
    why = "{field: profile, value: dev, reason: r, owner: o, evidence: e}"
    policy.write_text(f"profile: dev\noverrides: [{why}]\n")
    assert gatemark("score", "overhead", *arms, "--policy", policy).code == 0
    policy.write_text(f"profile: ci\noverrides: [{why}]\n")
    refused = gatemark("score", "overhead", *arms, "--policy", policy)
    assert (refused.code, "override of profile must be ci" in refused.err) == (2, True)


def test_the_profile_decides_what_is_looser(gatemark: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10.2)
    words = ("--profile", "dev", "--reason", "pilot", "--owner", "ada", "--evidence", "runs/7")
    assert gatemark("score", "overhead", *arms, *words).code == 0
    assert gatemark("score", "overhead", *arms, *words, "--budget", 0.03).code == 0
    assert gatemark("score", "overhead", *arms, "--profile", "ci").code == 1
    assert gatemark("score", "overhead", *arms, "--profile", "ci", "--budget", 0.01).code == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("profile: none\n", "policy.yaml: Invalid enum value 'none'"),
        ("budget: 0.5\n", "unknown field `budget`"),
        ("overrides: [{field: budget, value: banana}]\n", "policy: Expected `float`, got `str`"),
        ("overrides: [{field: budget, value: 99}]\n", "budget must be in [0, 0.5], got 99"),
        ("overrides: [{field: budget, value: -1}]\n", "got -1"),
        ("overrides: [{field: budget, value: 0.2}]\n", "needs a reason"),
        ("overrides: [{field: budget, value: .nan}]\n", "got nan"),
        ("overrides: [{field: skip, value: 1}]\n", "unknown setting 'skip'"),
        ("noise: true\n", "noise cannot be set; give a second bare run"),
        ("profile: ci\nprofile: dev\n", "policy.yaml:2: key 'profile' appears more than once"),
        ("[1]\n", "Expected `object`"),
        (
            "overrides: [{field: budget, value: 0.2, reason: r, owner: o, evidence: e, "
            "expires_at: 2020-01-01T00:00:00Z}]\n",
            "override of budget by o expired",
        ),
    ],
)
def test_a_policy_file_that_is_none_is_refused(
    gatemark: Run, tmp_path: Path, text: str, words: str
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    ran = gatemark("score", "overhead", *ppl_pair(tmp_path, 10, 10), "--policy", policy)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_flags_and_file_must_not_contradict(gatemark: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("profile: ci\noverrides: [{field: budget, value: 0.005}]\n")
    arms = ppl_pair(tmp_path, 10, 10.01)
    ran = gatemark("score", "overhead", *arms, "--policy", policy, "--profile", "dev")
    assert (ran.code, "is for profile ci, not for dev" in ran.err) == (2, True)
    ran = gatemark("score", "overhead", *arms, "--policy", policy, "--budget", 0.001)
    assert (ran.code, "already overrides budget" in ran.err) == (2, True)
    same = gatemark("score", "overhead", *arms, "--policy", policy, "--budget", 0.005)
    assert same.code == 0
