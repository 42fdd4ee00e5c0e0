"""Probes on a real store with a live asset: what is judged, done, told and done only once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.release.lifecycle.sealed import LAXER

from gatemark.core.errors import RefusedError, UsageError
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.release.drift.close import CloseRequest, close_episode
from gatemark.release.drift.judging.policy import DriftPolicy, Response, Watch
from gatemark.release.drift.open_stores import episodes_of
from gatemark.release.drift.probe import ProbeReport
from gatemark.release.drift.view import drift_view
from gatemark.release.drift.views.page import render_drift
from gatemark.release.lifecycle.commands import Approve, Demote, Promote

from .live import ASSET, METRIC, Live, lively, point
from .series import by_tick, day


@pytest.fixture
def live(tmp_path: Path) -> Live:
    found = Live(str(tmp_path / "store"), tmp_path)
    found.enable()
    return found


def level(found: ProbeReport, metric: str = METRIC) -> str:
    return next(signal.level for signal in found.signals if signal.metric == metric)


def moves(found: ProbeReport) -> list[tuple[str, str]]:
    return [(d.act, d.outcome) for d in found.actions if d.act not in ("tell", "close")]


def test_a_warning_asks_about_the_last_live_version_and_a_breach_demotes_it(live: Live) -> None:
    live.push(0, [*lively(), 6.0, 3.0])
    warned = live.probe(17)
    assert level(warned) == "WARN"
    assert [act for act, _ in moves(warned)] == ["keep"]
    assert live.stage() == "enabled"
    breached = live.probe(18)
    assert level(breached) == "BREACH"
    assert moves(breached) == [("demote", "1.0.0 was demoted")]
    assert live.stage() == "demoted"
    assert verify_ledger(live.workspace.store).issues == ()


def test_every_act_is_an_event_that_cites_signal_and_baseline(live: Live) -> None:
    live.push(0, [*lively(), 3.0, 3.0])
    found = live.probe(18)
    (episode,) = found.episodes
    told = [payload for _, payload in live.events("drift_signal") if payload["episode"]]
    (payload,) = told
    assert (payload["level"], payload["version"]) == ("BREACH", "1.0.0")
    assert payload["signal"]["sigma"] == episode.signal.sigma
    assert payload["baseline_ids"] == list(episode.baseline_ids)
    assert len(payload["baseline_ids"]) == 14
    assert payload["baseline_ids"][-1] == "2026-03-15T00:00:00Z/86400s#1", "one window is left out"
    assert payload["baseline_digest"] == episode.baseline_digest
    assert payload["drift_policy_digest"] == by_tick(on_breach="stop").digest
    signal_seq = next(seq for seq, p in live.events("drift_signal") if p["episode"])
    *_, (_, moved) = live.events("transition")
    assert (moved["after"], moved["cause"]) == ("demoted", "demote")
    assert moved["signals"] == [signal_seq]


def test_probing_again_does_nothing_again(live: Live) -> None:
    live.push(0, [*lively(), 3.0, 3.0])
    live.probe(17)
    first = live.probe(18)
    head = live.workspace.events.head()
    again = live.probe(18)
    assert again.signals == first.signals
    assert again.actions == ()
    assert live.workspace.events.head() == head


def test_a_probe_that_died_before_it_acted_is_made_up_for(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gatemark.release.drift import probe

    live.push(0, [*lively(), 3.0, 3.0])

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(probe, "act_on", die)
        with pytest.raises(KeyboardInterrupt):
            live.probe(18)
    assert live.stage() == "enabled"
    live.probe(18)
    assert live.stage() == "demoted"


def test_a_probe_that_died_before_it_told_that_an_episode_is_over_is_made_up_for(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gatemark.release.drift import probe

    live.push(0, [*lively(), 6.0, 10.0, 10.0, 10.0])
    live.probe(17)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(probe, "act_on", die)
        with pytest.raises(KeyboardInterrupt):
            live.probe(20)
    live.probe(20)
    live.probe(20)
    levels = [p["level"] for _, p in live.events("drift_signal") if p["episode"]]
    assert levels == ["WARN", "OK"]


def test_a_dry_run_and_a_clock_that_went_back_change_nothing(live: Live) -> None:
    live.push(0, [*lively(), 3.0])
    assert level(live.probe(17, dry_run=True)) == "WARN"
    assert live.stage() == "enabled"
    live.push(17, [10.0])
    live.probe(18)
    head = live.workspace.events.head()
    back = live.probe(17)
    assert "the clock went back" in back.notes[0]
    assert back.actions == ()
    assert live.workspace.events.head() == head


def test_an_edited_time_of_the_last_probe_does_not_end_the_watch(live: Live) -> None:
    live.push(0, lively())
    assert level(live.probe(16)) == "OK"
    with live.workspace.store.database.adding() as connection:
        connection.execute(sa.text("UPDATE drift_ticks SET at = '2999-01-01T00:00:00+00:00'"))
    found = live.probe(40)
    assert (level(found), found.notes) == ("STALE", ())
    assert [said["level"] for _, said in live.events("drift_signal")][-1] == "STALE"
    assert episodes_of(live.workspace).last_tick().at == day(40)


def test_a_clock_far_ahead_says_stale_and_demotes_nobody(live: Live) -> None:
    live.push(0, lively())
    found = live.probe(400)
    assert level(found) == "STALE"
    assert live.stage() == "enabled"


def test_a_long_silence_is_counted_from_the_last_point_that_is_over(live: Live) -> None:
    live.push(0, lively())
    (late,) = live.probe(400).signals
    assert late.extras == {"missing_windows": 384}
    assert late.reason.endswith("the last window looked at ended 2026-03-17")
    live.now = day(-1)
    (early,) = live.probe(-30).signals
    assert (early.level, early.extras) == ("STALE", {"silent_windows": 60})


def test_a_clock_that_was_far_ahead_once_does_not_end_the_watch(live: Live) -> None:
    live.push(0, lively())
    live.probe(400)
    live.push(16, [3.0, 3.0])
    warned = live.probe(17)
    assert "the clock went back" in warned.notes[0]
    assert "windows that were not judged yet are judged" in warned.notes[0]
    assert (level(warned), live.stage()) == ("WARN", "enabled")
    breached = live.probe(18)
    assert (breached.notes, level(breached), live.stage()) == ((), "BREACH", "demoted")


def test_a_window_that_comes_after_the_next_is_judged_all_the_same(live: Live) -> None:
    live.push(0, lively())
    live.probe(16)
    live.push(17, [10.0])
    assert level(live.probe(18)) == "OK"
    live.push(16, [3.0])
    late = live.probe(18)
    assert level(late) == "WARN"
    assert late.episodes[0].opened.start == day(16)
    assert late.notes == (
        f"windows that were judged before have changed and are judged again: {ASSET} {METRIC}",
    )
    assert live.stage() == "enabled"
    again = live.probe(18)
    assert (again.notes, again.actions, again.judged_windows) == ((), (), 0)


def test_drift_that_shows_in_corrections_only_is_seen(live: Live) -> None:
    live.push(0, lively())
    live.probe(16)
    for number in (16, 17):
        live.push(number, [10.0])
        live.probe(number + 1)
        live.push(number, [3.0])
        found = live.probe(number + 1)
    assert level(found) == "BREACH"
    assert live.stage() == "demoted"
    assert len(episodes_of(live.workspace).episodes()) == 1


def test_a_correction_for_the_better_leaves_the_episode_to_quiet_windows(live: Live) -> None:
    live.push(0, [*lively(), 3.0])
    (episode,) = live.probe(17).episodes
    live.push(16, [10.0])
    assert level(live.probe(17)) == "WARN", "machines give nothing back at once"
    live.push(17, [10.0, 10.0])
    found = live.probe(19)
    assert (level(found), [one.id for one in found.closed]) == ("OK", [episode.id])


def test_a_correction_does_not_bring_an_old_episode_back(live: Live) -> None:
    live.push(0, [*lively(), 5.5, 10.0, 10.0, 10.0, 10.0])
    live.probe(17)
    (over,) = live.probe(20).closed
    live.probe(21)
    live.push(20, [10.1])
    found = live.probe(21)
    assert found.notes
    assert (found.episodes, found.closed, level(found)) == ((), (), "OK")
    assert [one.id for one in episodes_of(live.workspace).episodes()] == [over.id]


def test_trouble_that_a_correction_brings_back_is_a_new_episode_and_acted_on(live: Live) -> None:
    live.push(0, [*lively(), 5.5, 10.0, 10.0, 10.0])
    live.probe(17)
    (over,) = live.probe(20).closed
    live.push(18, [3.0, 3.0])
    found = live.probe(20)
    assert level(found) == "BREACH"
    assert found.episodes[0].id != over.id
    assert found.signals[0].episode == found.episodes[0].id
    assert live.stage() == "demoted"


def test_a_correction_from_before_a_fresh_start_demotes_nobody(live: Live) -> None:
    live.push(0, [*lively(), 3.0, 3.0])
    live.probe(17)
    live.probe(18)
    live.promote("1.0.0", "evaluating", actor="ann")
    live.promote("1.0.0", "eligible", live.seal("1.0.0"), actor="eve")
    live.promote("1.0.0", "shadow")
    live.push(18, [3.0])
    live.probe(19)
    live.push(17, [2.0])
    found = live.probe(19)
    assert (found.actions, live.stage()) == ((), "shadow")
    wary = by_tick(q=0.06)
    assert (live.probe(19, policy=wary).actions, live.stage()) == ((), "shadow")


def test_another_policy_does_not_demote_the_live_version_for_a_canary_that_is_gone(
    live: Live,
) -> None:
    live.push(0, lively())
    live.probe(16)
    live.to_canary("2.0.0")
    live.push(0, [*lively(), 3.0, 3.0], version="2.0.0")
    live.probe(17)
    live.probe(18)
    live.push(18, [10.0])
    live.probe(19)
    found = live.probe(19, policy=by_tick(q=0.06, on_breach="stop"))
    assert moves(found) == []
    assert live.stage("1.0.0") == "enabled"


def test_a_canary_is_paused_by_a_warning_and_rolled_back_by_a_breach(live: Live) -> None:
    live.push(0, lively())
    live.probe(16)
    live.to_canary("2.0.0")
    live.push(0, [*lively(), 3.0, 3.0], version="2.0.0")
    warned = live.probe(17)
    assert moves(warned) == [("pause", "2.0.0 was paused")]
    assert live.place.tracks["2.0.0"].paused.reason == "warn"
    breached = live.probe(18)
    assert moves(breached) == [("roll_back", "2.0.0 was rolled back")]
    assert (live.stage("2.0.0"), live.stage("1.0.0")) == ("rolled_back", "enabled")
    live.push(16, [10.0, 10.0, 10.0])
    after = live.probe(19)
    assert level(after) == "OK", "the live version has a baseline of its own"
    assert after.closed[0].closed_because == "2.0.0 is rolled back"
    assert live.stage("1.0.0") == "enabled"


def test_a_canary_that_breaches_at_first_sight_is_rolled_back_and_over(live: Live) -> None:
    live.push(0, lively())
    live.probe(16)
    live.to_canary("2.0.0")
    track = live.place
    assert track.canary == "2.0.0"
    live.push(0, [*lively(), 3.0, 3.0], version="2.0.0")
    live.probe(18)
    found = live.probe(18.5)
    assert [one.closed_because for one in found.closed] == ["2.0.0 is rolled back"]
    assert (found.episodes, live.stage("1.0.0")) == ((), "enabled")


def test_a_return_needs_a_fresh_result_and_starts_a_new_baseline(live: Live) -> None:
    live.push(0, [*lively(), 3.0, 3.0])
    live.probe(17)
    live.probe(18)
    old = live.workspace.results.lines(10)[-1].id
    live.promote("1.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError, match=r"1\.0\.0"):
        live.promote("1.0.0", "eligible", old, actor="eve")
    live.promote("1.0.0", "eligible", live.seal("1.0.0"), actor="eve")
    assert level(live.probe(18)) == "BREACH", "eligible is not yet back"
    live.promote("1.0.0", "shadow")
    live.push(18, [3.0])
    found = live.probe(19)
    assert level(found) == "INSUFFICIENT_BASELINE"
    assert "entered shadow, citing sha256:" in str(found.closed[0].closed_because)
    live.do(Approve, "bob", "1.0.0", stage="enabled", note="read it")
    live.promote("1.0.0", "enabled")
    assert live.stage() == "enabled"


def test_the_page_shows_expected_metrics_that_were_never_pushed(tmp_path: Path) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.enable(kind="agent")
    live.push(0, lively())
    found = live.probe(len(lively()))
    silent = [one.metric for one in found.signals if one.level == "STALE"]
    assert (level(found), silent) == ("OK", ["verifier_block_ratio"])
    view = drift_view(live.workspace, by_tick(), ASSET, day(len(lively())))
    assert [(one.metric, one.signal.level) for one in view.series] == [
        (METRIC, "OK"),
        ("verifier_block_ratio", "STALE"),
    ]
    page = render_drift(view).decode()
    assert 'class="banner inconclusive"' in page
    assert "no point was ever pushed" in page


def test_a_window_from_before_a_new_start_has_no_baseline(live: Live) -> None:
    live.push(0, [*lively(), 3.0, 3.0])
    live.probe(17)
    live.probe(18)
    live.promote("1.0.0", "evaluating", actor="ann")
    live.promote("1.0.0", "eligible", live.seal("1.0.0"), actor="eve")
    live.promote("1.0.0", "shadow")
    for policy in (by_tick(on_breach="stop"), by_tick(on_breach="fallback")):
        (signal,) = live.probe(18.1, policy=policy).signals
        assert (signal.level, signal.n, signal.episode) == ("INSUFFICIENT_BASELINE", 1, None)
        assert signal.reason == "0 windows of baseline, 14 are needed to judge"


def test_broken_glass_does_not_make_a_metric_forget_its_trouble(live: Live) -> None:
    live.push(0, [*lively(), 6.0])
    live.probe(17)
    live.do(Demote, "olu", "1.0.0", to="shadow", note="it drifts", stop=True)
    live.do(Promote, "olu", "1.0.0", to="enabled", incident="INC-1", note="customers wait")
    assert live.stage() == "enabled"
    live.push(17, [6.0, 6.0])
    found = live.probe(19)
    assert (found.closed, level(found)) == ((), "BREACH")
    assert live.stage() == "demoted"


def test_a_candidate_in_shadow_ends_no_trouble_of_the_live_version(live: Live) -> None:
    patient = by_tick(responses=(Response("enabled", "WARN", ("alert",)),))
    live.push(0, [*lively(), 6.0])
    (episode,) = live.probe(17, policy=patient).episodes
    live.to_shadow("2.0.0")
    live.push(17, [6.0])
    found = live.probe(18, policy=patient)
    assert [one.id for one in found.episodes] == [episode.id]
    assert (found.closed, level(found)) == ((), "WARN")


def test_a_return_after_a_warning_needs_a_fresh_result_too(live: Live) -> None:
    live.push(0, [*lively(), 6.0, 10.0, 10.0, 10.0])
    live.probe(17)
    live.do(Demote, "olu", "1.0.0", to="shadow", note="it drifts", stop=True)
    assert level(live.probe(20)) == "OK", "the episode is over, the fall is not"
    with pytest.raises(RefusedError) as refused:
        live.promote("1.0.0", "enabled")
    assert "only a new required-pack result can promote it again" in " ".join(refused.value.lines())
    fresh = live.seal("1.0.0")
    live.do(Approve, "bob", "1.0.0", stage="enabled", result_ids=(fresh,), note="read it")
    live.promote("1.0.0", "enabled", fresh)
    assert live.stage() == "enabled"


def test_an_open_breach_holds_a_promotion(live: Live) -> None:
    live.push(0, lively())
    live.probe(16)
    live.to_shadow("2.0.0")
    live.push(16, [3.0, 3.0])
    live.probe(17, policy=by_tick(responses=()))
    live.probe(18, policy=by_tick(responses=()))
    assert live.stage("1.0.0") == "enabled", "this policy only looks"
    from gatemark.core.canonical import digest
    from gatemark.release.lifecycle.commands import Approve

    compared = live.seal("2.0.0", baseline=digest("1.0.0"))
    live.do(Approve, "bob", "2.0.0", stage="canary_1", result_ids=(compared,), note="read it")
    with pytest.raises(RefusedError) as refused:
        live.promote("2.0.0", "canary_1", compared)
    assert "drift" in " ".join(refused.value.lines())


def test_a_person_closes_a_warning_with_a_reason_and_a_breach_only_with_a_result(
    live: Live,
) -> None:
    live.push(0, [*lively(), 3.0, 3.0])
    (warned,) = live.probe(17).episodes
    (breached,) = live.probe(18).episodes
    assert warned.id == breached.id

    def close(**more: Any) -> Any:
        request = CloseRequest(episode=breached.id[7:17], actor="olu", **more)
        return close_episode(live.workspace, request, day(18.5))

    live.now = day(18.5)
    for unsaid in (" ", "\u200b\u2800"):
        with pytest.raises(UsageError, match="needs a reason that says why"):
            close(reason=unsaid)
    with pytest.raises(RefusedError, match="can only be closed with a fresh passing result"):
        close(reason="new normal")
    old = live.workspace.results.lines(10)[-1].id
    with pytest.raises(RefusedError, match="before the episode showed"):
        close(reason="new normal", cite=old)
    failed = live.seal("1.0.0", verdict="fail")
    with pytest.raises(RefusedError, match="did not pass"):
        close(reason="new normal", cite=failed)
    other = live.seal("9.9.9")
    with pytest.raises(RefusedError, match="is about another candidate"):
        close(reason="new normal", cite=other)
    lax = live.seal("1.0.0", policy=LAXER)
    with pytest.raises(RefusedError, match="no cited result ran the required pack"):
        close(reason="new normal", cite=lax)
    fresh = live.seal("1.0.0")
    over = close(reason="new normal", cite=fresh)
    assert over.closed_because == f"closed by olu: new normal (citing {fresh})"
    with pytest.raises(UsageError, match="names 0 open episodes"):
        close(reason="twice")
    assert live.stage() == "demoted", "nothing comes back by itself"
    live.push(18, [3.0])
    found = live.probe(19)
    assert (level(found), found.signals[0].baseline_windows) == ("INSUFFICIENT_BASELINE", 0)


def test_a_metric_that_never_came_is_stale_for_registered_assets(live: Live) -> None:
    found = live.probe(3)
    (signal,) = found.signals
    assert (signal.asset, signal.metric, signal.level) == (ASSET, METRIC, "STALE")
    assert "never" in signal.reason or "ever" in signal.reason


def test_assets_nobody_registered_are_judged_and_told_but_not_moved(tmp_path: Path) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.push(0, [*lively(), 3.0, 3.0])
    live.probe(17)
    found = live.probe(18)
    assert level(found) == "BREACH"
    assert moves(found) == []
    assert [p["level"] for _, p in live.events("drift_signal")] == ["WARN", "BREACH"]


def test_another_policy_judges_the_same_windows_anew(live: Live) -> None:
    live.push(0, [*lively(), 3.0, 3.0, 3.0])
    literal = live.probe(19, policy=by_tick(mode="literal"))
    assert level(literal) == "WARN", "the trailing baseline has swallowed the shift"
    found = live.probe(19)
    assert level(found) == "BREACH"
    assert found.signals[0].z is not None
    assert found.episodes[0].id == literal.episodes[0].id, "still the same trouble"
    assert live.stage() == "demoted"
    again = live.probe(19, policy=by_tick(mode="literal"))
    assert level(again) == "WARN", "literal is the formula and nothing else"
    assert again.episodes[0].level == "BREACH"


def test_an_episode_outlives_a_policy_that_would_not_have_opened_it(live: Live) -> None:
    live.push(0, [*lively(), 7.0])
    assert level(live.probe(17)) == "WARN"
    patient = by_tick(watches=(Watch(metric="*", warn=9.0, breach=9.0),))
    found = live.probe(17, policy=patient)
    assert (found.signals[0].level, found.signals[0].episode) == ("WARN", found.episodes[0].id)
    live.push(17, [10.0, 10.0, 10.0])
    assert level(live.probe(20, policy=patient)) == "OK"


def test_an_episode_keeps_a_baseline_that_is_longer_than_those_of_another_policy(
    live: Live,
) -> None:
    live.push(0, [*lively(), *lively(), 3.0, 3.0])
    found = live.probe(34, policy=DriftPolicy(on_breach="stop"))
    (episode,) = (one for one in found.episodes if one.detector == "sigma")
    assert len(episode.baseline_ids) > 14
    (signal,) = live.probe(34, policy=by_tick(on_breach="stop")).signals
    assert (signal.episode, signal.baseline_windows) == (episode.id, len(episode.baseline_ids))


def test_a_series_under_two_detectors_has_two_signals(live: Live) -> None:
    policy = by_tick(
        watches=(
            Watch(metric=METRIC, harm="down"),
            Watch(metric=METRIC, harm="down", detector="ewma", warn_only=True),
        )
    )
    live.push(0, lively())
    found = live.probe(16, policy=policy)
    assert [signal.detector for signal in found.signals] == ["ewma", "sigma"]


def test_shorter_windows_are_merged_into_the_watched_one(live: Live) -> None:
    lines = []
    for number in range(17):
        for hour in range(24):
            line = point(number, 1.0 if hour < 12 else 0.0, n=10)
            start = day(number + hour / 24)
            line["start"] = start.strftime("%Y-%m-%dT%H:%M:%SZ")
            line["end"] = day(number + (hour + 1) / 24).strftime("%Y-%m-%dT%H:%M:%SZ")
            lines.append(line)
    live.push_lines(lines, day(17))
    signal = live.probe(17).signals[0]
    assert (signal.value, signal.n, signal.baseline_windows) == (pytest.approx(0.5), 240, 14)
    assert signal.window is not None
    assert signal.window.id == "2026-03-17T00:00:00Z/86400s"


@pytest.mark.parametrize(("shifted", "expected"), [((60, 40), "BREACH"), ((57, 43), "WARN")])
def test_classes_breach_when_two_windows_are_beyond_three_without_more(
    live: Live, shifted: tuple[int, int], expected: str
) -> None:
    base = {k: v for k, v in point(0, 0, metric="kinds").items() if k not in ("value", "n")}
    days = [*[(450, 550)] * 16, *[shifted] * 2]
    lines = [
        base
        | {key: value for key, value in point(number, 0).items() if key in ("start", "end")}
        | {"categories": {"a": first, "b": second}}
        for number, (first, second) in enumerate(days)
    ]
    policy = by_tick(watches=(Watch(metric="kinds", detector="chi_square"),))
    live.push_lines(lines, day(18))
    found = live.probe(18, policy=policy)
    assert level(found, "kinds") == expected
    z = next(one.z for one in found.signals if one.metric == "kinds")
    assert z is not None
    assert (z >= 3) == (expected == "BREACH")
    assert z < 3.82, "what a sigma of 14 windows would need"


def of_form(number: int, metric: str, **held: Any) -> dict[str, Any]:
    line = point(number, 0, metric=metric)
    return {k: v for k, v in line.items() if k not in ("value", "n")} | held


def test_a_form_that_no_watch_reads_is_named(live: Live) -> None:
    live.push_lines([of_form(0, "odd", histogram=[1, 2])], day(1))
    found = live.probe(1, policy=by_tick(watches=(Watch(metric="*"),)))
    assert found.notes == ("triage odd (histogram) has no watch that reads it",)


@pytest.mark.parametrize(
    ("before", "after", "detector"),
    [
        ({"histogram": [90, 10]}, {"histogram": [10, 90]}, "kl"),
        ({"categories": {"a": 90, "b": 10}}, {"categories": {"a": 10, "b": 90}}, "chi_square"),
        (
            {"calibration": {"items": [200], "confidence_sum": [100.0], "correct": [100]}},
            {"calibration": {"items": [200], "confidence_sum": [100.0], "correct": [10]}},
            "ece_excess",
        ),
        ({"k": 90, "n": 100}, {"k": 10, "n": 100}, "sigma"),
        (
            {"sum": 90, "sum_squares": 90.0, "n": 100},
            {"sum": 9, "sum_squares": 9, "n": 100},
            "sigma",
        ),
    ],
)
def test_metrics_that_no_table_names_are_watched_whatever_their_form(
    live: Live, before: dict[str, Any], after: dict[str, Any], detector: str
) -> None:
    days = [*[before] * 16, after, after]
    live.push_lines([of_form(at, "own", **held) for at, held in enumerate(days)], day(18))
    found = live.probe(18)
    (signal,) = [one for one in found.signals if one.metric == "own"]
    assert (signal.detector, signal.level) == (detector, "BREACH")
    assert ("sigma" in signal.reason) == (detector != "chi_square")


def test_another_policy_does_not_tell_of_old_trouble_that_is_over(live: Live) -> None:
    live.push(0, [*lively(), 5.5, 10.0, 10.0, 10.0, 10.0])
    live.probe(17)
    (over,) = live.probe(21).closed
    found = live.probe(21, policy=by_tick(q=0.06))
    assert (found.closed, found.episodes) == ((), ())
    assert [one.id for one in episodes_of(live.workspace).episodes()] == [over.id]


def test_two_probes_at_once_act_once(tmp_path: Path, live: Live) -> None:
    import threading

    live.push(0, [*lively(), 3.0, 3.0])
    live.now = day(18)
    others = [Live(str(tmp_path / "store"), tmp_path) for _ in range(3)]
    for other in others:
        other.now = day(18)
    threads = [threading.Thread(target=lambda o=o: o.probe(18)) for o in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    downs = [p for _, p in live.events("transition") if p["cause"] == "demote"]
    assert len(downs) == 1
    assert verify_ledger(live.workspace.store).issues == ()
