"""Progress off a terminal: plain lines with totals, rate, errors and the time left."""

from __future__ import annotations

from gatemark.cli.call_progress import PlainLines, describe_progress
from gatemark.targets.outcomes import RunProgress


def test_a_line_every_few_seconds_and_one_at_the_end() -> None:
    now = 0.0
    lines: list[str] = []
    shown = PlainLines(lambda: now, lines.append)
    for done in range(1, 101):
        now = done * 0.2
        ok = done - done // 50
        progress = RunProgress(total=100, done=done, ok=ok, error=done // 50, passed=ok)
        shown.update("candidate golden", progress)
    assert len(lines) == 4
    assert lines[0].startswith("candidate golden: 25 of 100, 5.2 per s, 25 pass, 0 fail, 0 errors")
    assert lines[0].endswith("about 14 s left")
    assert lines[-1].startswith("candidate golden: 100 of 100, ")
    assert "2 errors" in lines[-1]
    assert "left" not in lines[-1]


def test_a_short_run_prints_nothing() -> None:
    lines: list[str] = []
    shown = PlainLines(lambda: 1.0, lines.append)
    for done in (1, 2):
        shown.update("candidate golden", RunProgress(total=2, done=done, ok=done))
    assert lines == []


def test_replies_from_the_journal_do_not_count_as_speed() -> None:
    progress = RunProgress(total=20_000, done=110, ok=110, cached=100)
    text = describe_progress(progress, 10.0)
    assert text == (
        "110 of 20000, 1.0 per s, 110 ok, 0 errors, 0 retries, 100 from the journal, "
        "about 5 h 31 min left"
    )
