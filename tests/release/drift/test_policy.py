from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.core.durations import seconds_of, words_of
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.release.drift.judging.policy import (
    CORRECTED_DEFAULTS,
    LITERAL_DEFAULTS,
    DriftPolicy,
    Response,
    Watch,
)
from gatemark.release.drift.policy_file import choose_drift_policy, format_policy, read_drift_policy

TABLE = {
    "golden_accuracy": ({"model", "prompt", "tool", "agent"}, "down", "sigma"),
    "verifier_block_ratio": ({"agent"}, "both", "sigma"),
    "confidence_kl": ({"extractor", "classifier"}, "up", "kl"),
    "rejection_ratio": ({"rule_pack"}, "both", "sigma"),
    "calibration_ece": ({"extractor", "classifier"}, "up", "ece_excess"),
    "tool_error_classes": ({"tool"}, "both", "chi_square"),
}


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "drift.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_built_in_watches_are_the_table_of_watched_metrics() -> None:
    watches = {watch.metric: watch for watch in LITERAL_DEFAULTS}
    assert set(watches) == {*TABLE, "*"}
    for metric, (classes, harm, detector) in TABLE.items():
        watch = watches[metric]
        assert (set(watch.classes), watch.harm, watch.detector) == (classes, harm, detector)
        assert (watch.window, watch.baseline) == ("1d", 14)
        assert (watch.warn, watch.breach, watch.sustained) == (2, 3, 2)


def test_the_mode_that_corrects_looks_for_lasting_shifts_beside_every_sigma_probe() -> None:
    probes = [watch for watch in CORRECTED_DEFAULTS if watch.detector == "sigma"]
    beside = [watch for watch in CORRECTED_DEFAULTS if watch.detector == "shift"]
    assert [watch.metric for watch in probes] == [watch.metric for watch in beside]
    for probe, shift in zip(probes, beside, strict=True):
        assert (probe.baseline, shift.baseline) == (90, 90)
        assert (probe.harm, probe.classes, probe.scale) == (shift.harm, shift.classes, shift.scale)
    others = [watch for watch in LITERAL_DEFAULTS if watch.detector != "sigma"]
    added = ("sigma", "shift", "sealed")
    assert [watch for watch in CORRECTED_DEFAULTS if watch.detector not in added] == others
    assert [watch.metric for watch in CORRECTED_DEFAULTS if watch.detector == "sealed"] == [
        "golden_accuracy",
        "*",
    ]


def test_the_literal_mode_has_the_table_of_the_document_also_when_a_file_adds_to_it(
    tmp_path: Path,
) -> None:
    assert DriftPolicy(mode="literal").watches == LITERAL_DEFAULTS
    path = written(tmp_path, "gatemark_drift: 1\nwatches:\n  - {metric: own}\n")
    assert {watch.detector for watch in read_drift_policy(path, "literal").watches} == {
        watch.detector for watch in LITERAL_DEFAULTS
    }
    assert "shift" in {watch.detector for watch in read_drift_policy(path).watches}


@pytest.mark.parametrize(
    ("stage", "level", "acts"),
    [
        ("enabled", "WARN", ("shadow", "alert")),
        ("enabled", "DEGENERATE", ("shadow", "alert")),
        ("enabled", "BREACH", ("demote", "alert")),
        ("canary", "WARN", ("pause", "alert")),
        ("canary", "BREACH", ("roll_back", "alert")),
        ("shadow", "WARN", ("alert",)),
        ("shadow", "BREACH", ("demote", "alert")),
        ("enabled", "NEW_CLASS", ("alert",)),
        ("enabled", "STALE", ("alert",)),
        ("enabled", "OK", ()),
        ("enabled", "INFO", ()),
        ("enabled", "INSUFFICIENT_BASELINE", ()),
        (None, "BREACH", ("alert",)),
        (None, "OK", ()),
        ("retired", "BREACH", ()),
    ],
)
def test_what_follows_depends_on_stage_and_level(stage: Any, level: Any, acts: Any) -> None:
    assert DriftPolicy().acts_for(stage, level) == acts


def test_every_number_is_in_the_digest() -> None:
    base = DriftPolicy()
    first = base.watches[0]
    for name, value in (
        *(("warn", 1.9), ("breach", 3.1), ("sustained", 3), ("harm", "up"), ("baseline", 15)),
        *(("min_items", 2), ("clear_below", 1.4), ("scale", "number"), ("min_effect", 0.1)),
        ("options", {"floor": False}),
    ):
        changed = msgspec.structs.replace(first, **{name: value})
        other = msgspec.structs.replace(base, watches=(changed, *base.watches[1:]))
        assert other.digest != base.digest, name
    for name, value in (("q", 0.1), ("mode", "literal"), ("breach_by_mean", False)):
        assert msgspec.structs.replace(base, **{name: value}).digest != base.digest, name


@pytest.mark.parametrize(
    ("fields", "finding"),
    [
        ({"metric": " "}, "needs a metric"),
        ({"warn": 4.0}, "warn must be <= breach"),
        ({"clear_below": 2.5}, "clear_below must be <= warn"),
        ({"enough": 20}, "enough <= baseline <= span"),
        ({"enough": 1}, "2 <= enough"),
        ({"span": 10}, "enough <= baseline <= span"),
        ({"displayed": 15}, "displayed must be <= enough"),
        ({"window": "one day"}, "is not a duration"),
    ],
)
def test_a_watch_that_makes_no_sense_cannot_be(fields: dict[str, Any], finding: str) -> None:
    with pytest.raises(InvalidValueError, match=finding):
        Watch(**{"metric": "m", **fields})


def test_a_policy_that_watches_nothing_or_twice_cannot_be() -> None:
    with pytest.raises(InvalidValueError, match="watches nothing"):
        DriftPolicy(watches=())
    with pytest.raises(InvalidValueError, match="twice"):
        DriftPolicy(watches=(Watch(metric="m"), Watch(metric="m", warn=1.6)))
    with pytest.raises(InvalidValueError, match="responds twice to enabled WARN"):
        DriftPolicy(responses=(Response("enabled", "WARN", ("alert",)),) * 2)
    with pytest.raises(InvalidValueError, match="must name at least one act"):
        Response("enabled", "WARN", ())


@pytest.mark.parametrize(
    ("stage", "level", "act", "finding"),
    [
        ("enabled", "OK", "alert", "OK of enabled cannot have a response"),
        ("enabled", "STALE", "demote", "cannot be followed by demote, only by alert"),
        ("enabled", "WARN", "pause", "only by alert, shadow, demote, roll_back"),
        ("shadow", "BREACH", "roll_back", "only by alert, demote"),
    ],
)
def test_a_response_that_could_never_come_true_cannot_be(
    stage: Any, level: Any, act: Any, finding: str
) -> None:
    with pytest.raises(InvalidValueError, match=finding):
        Response(stage, level, (act,))


def test_users_add_their_own_and_change_what_is_there(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "gatemark_drift: 1\nwatches:\n"
        "  - {metric: cost_per_call, harm: up, min_sd: 0.01}\n"
        "  - {metric: golden_accuracy, harm: down, breach: 4}\n"
        "  - {metric: golden_accuracy, harm: down, detector: ewma, warn_only: true}\n"
        "responses:\n  - {stage: enabled, level: WARN, acts: [alert]}\n",
    )
    policy = read_drift_policy(path)
    metrics = [watch.metric for watch in policy.watches]
    assert metrics.count("golden_accuracy") == 2
    assert metrics.count("calibration_ece") == 1
    assert metrics[-1] == "*"
    assert policy.acts_for("enabled", "WARN") == ("alert",)
    assert policy.acts_for("enabled", "BREACH") == ("demote", "alert")
    assert choose_drift_policy(path, "literal").mode == "literal"


def test_a_written_policy_reads_back_as_itself(tmp_path: Path) -> None:
    path = written(tmp_path, format_policy(DriftPolicy()))
    assert read_drift_policy(path) == DriftPolicy()


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("watches: []\n", "must start with gatemark_drift: 1"),
        ("gatemark_drift: 2\n", "must start with gatemark_drift: 1"),
        ("gatemark_drift: 1\nwatches: []\n", "watches nothing"),
        ("gatemark_drift: 1\ndefaults: maybe\n", "defaults must be true or false"),
        ("gatemark_drift: 1\nmodes: literal\n", "unknown field `modes`"),
        ("gatemark_drift: 1\nq: .nan\n", "`q`|q"),
        ("gatemark_drift: 1\nwatches: [{metric: m, warn: -1}]\n", "warn"),
        (
            "gatemark_drift: 1\nwatches: [{metric: m, detector: chi_square, harm: down}]\n",
            "watch of m: chi_square has no direction",
        ),
        (
            "gatemark_drift: 1\nwatches: [{metric: m, options: {flor: true}}]\n",
            r"watch of m: options of detector sigma: .*flor",
        ),
    ],
)
def test_a_bad_policy_file_is_refused_with_the_place(
    tmp_path: Path, text: str, finding: str
) -> None:
    with pytest.raises(BadInputError, match=finding):
        read_drift_policy(written(tmp_path, text))


def test_a_detector_that_nobody_knows_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "gatemark_drift: 1\nwatches: [{metric: m, detector: sgma}]\n")
    with pytest.raises(BadInputError, match=r"watch of m: .*did you mean 'sigma'"):
        read_drift_policy(path)


@pytest.mark.parametrize(("text", "seconds"), [("15m", 900), ("1d", 86_400), ("2w", 1_209_600)])
def test_lengths_of_time_are_read_and_written(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds
    assert words_of(seconds).replace(" ", "") == text


@pytest.mark.parametrize("text", ["", "0d", "1", "d", "1.5d", "-1d", "1 d", "9999999999d"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="is not a duration"):
        seconds_of(text)
