from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.plugins.runlog.replay.token_gate import GateSettings, TokenGate, has_boundary_cue

SMALL = GateSettings(min_words=3, max_words=5, silence_ms=100, max_wait_ms=400)


class PlainGate:
    """The written algorithm, word for word, with whole texts and no shortcuts."""

    def __init__(self, settings: GateSettings, *, rearm: bool) -> None:
        self.s, self.rearm = settings, rearm
        self.texts: dict[str, str] = {}
        self.started: dict[str, int] = {}
        self.last: dict[str, int] = {}

    def take(self, agent: str) -> str:
        self.started.pop(agent, None)
        self.last.pop(agent, None)
        text, self.texts[agent] = self.texts[agent], ""
        return text

    def add(self, agent: str, text: str, now: int) -> tuple[str, str] | None:
        old = None
        if self.texts.get(agent) and now - self.last[agent] >= self.s.silence_ms:
            old = self.take(agent)
        if agent not in self.texts or (self.rearm and not self.texts[agent]):
            self.started[agent] = now
        self.texts[agent] = self.texts.get(agent, "") + text
        self.last[agent] = now
        if old is not None:
            return old, "silence_timer"
        if agent in self.started and now - self.started[agent] >= self.s.max_wait_ms:
            return self.take(agent), "max_wait_timeout"
        words = len(self.texts[agent].split())
        if words >= self.s.max_words:
            return self.take(agent), "max_words"
        stripped = self.texts[agent].rstrip(" \t")
        while stripped and stripped[-1] in ")]}'\"":
            stripped = stripped[:-1]
        at_line_end = self.texts[agent].rstrip(" \t")[-1:] == "\n"
        if words >= self.s.min_words and (at_line_end or stripped[-1:] in (".", "?", "!")):
            return self.take(agent), "boundary_cue"
        return None


PIECES = st.sampled_from(
    [
        "a",
        "b c",
        " d",
        "e ",
        ".",
        "?)",
        '"',
        "'",
        " ",
        "\n",
        "\t",
        ".\t",
        "x\ny",
        "\u2003",
        "é.",
        "\x1c",
    ]
)
STREAMS = st.lists(
    st.tuples(st.sampled_from("AB"), PIECES, st.sampled_from([0, 5, 60, 99, 100, 101, 399, 400])),
    max_size=60,
)


@pytest.mark.parametrize("compat", ["gatemark", "source"])
@given(stream=STREAMS)
@settings(deadline=None, max_examples=150)
def test_the_gate_does_what_the_plain_algorithm_does(compat, stream) -> None:
    gate, plain = TokenGate(SMALL, compat), PlainGate(SMALL, rearm=compat == "gatemark")
    now = 0
    for seq, (agent, text, wait) in enumerate(stream):
        now += wait
        flushed, expected = gate.add(agent, text, now, seq), plain.add(agent, text, now)
        assert (flushed and (flushed.text, flushed.reason)) == expected
        if flushed is not None:
            assert flushed.words == len(flushed.text.split())
            assert flushed.start_seq <= flushed.end_seq <= seq
            assert (flushed.reason == "silence_timer") == (flushed.end_seq < seq)
    rest = {flushed.agent_id: flushed.text for flushed in gate.flush_all("end_of_trace")}
    assert rest == {agent: text for agent, text in plain.texts.items() if text}
    assert not list(gate.flush_all("end_of_trace"))


@given(stream=STREAMS)
@settings(deadline=None, max_examples=100)
def test_no_text_is_lost_or_repeated(stream) -> None:
    gate = TokenGate(SMALL)
    said: dict[str, str] = {}
    heard: dict[str, str] = {}
    now = 0
    for seq, (agent, text, wait) in enumerate(stream):
        now += wait
        said[agent] = said.get(agent, "") + text
        flushed = gate.add(agent, text, now, seq)
        if flushed is not None:
            heard[agent] = heard.get(agent, "") + flushed.text
    for flushed in gate.flush_all("end_of_trace"):
        heard[flushed.agent_id] = heard.get(flushed.agent_id, "") + flushed.text
    assert heard == said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("done.", True),
        ("done. \t", True),
        ("done?\"')", True),
        ("done\n", True),
        ("done\n  ", True),
        ("done", False),
        ("done,", False),
        ("done\t", False),
        (")", False),
        ("", False),
        (".\r", False),
    ],
)
def test_a_cue_is_a_line_end_or_a_closed_sentence(text: str, expected: bool) -> None:
    assert has_boundary_cue(text) is expected


def test_silence_is_noticed_when_the_agent_speaks_again_and_leaves_the_new_text_waiting() -> None:
    gate = TokenGate(SMALL)
    assert gate.add("A", "one", 0, 0) is None
    assert gate.add("B", "x", 500, 1) is None
    flushed = gate.add("A", "two three four five six", 100, 2)
    assert flushed is not None
    assert (flushed.text, flushed.reason, flushed.start_seq, flushed.end_seq) == (
        "one",
        "silence_timer",
        0,
        0,
    )
    rest = gate.flush("A", "turn_end")
    assert rest is not None
    assert (rest.text, rest.reason, rest.start_seq) == ("two three four five six", "turn_end", 2)


def test_one_millisecond_short_of_silence_is_no_silence() -> None:
    gate = TokenGate(SMALL)
    gate.add("A", "one", 0, 0)
    assert gate.add("A", " two", 99, 1) is None


def test_the_longest_wait_is_armed_anew_for_every_buffer_except_in_the_source() -> None:
    for compat, reason in (("gatemark", "max_wait_timeout"), ("source", None)):
        gate = TokenGate(GateSettings(3, 50, 100, 200), compat)
        gate.add("A", "a b c.", 0, 0)
        found = [gate.add("A", " x", now, now) for now in (50, 100, 150, 200, 250)]
        assert [one.reason if one else None for one in found] == [None] * 4 + [reason]


def test_words_are_counted_over_pieces_that_split_them() -> None:
    gate = TokenGate(SMALL)
    assert [
        gate.add("A", text, 0, seq) for seq, text in enumerate(["differ", "ential", " one"])
    ] == [None] * 3
    flushed = gate.add("A", " two.", 0, 3)
    assert flushed is not None
    assert (flushed.words, flushed.reason) == (3, "boundary_cue")


@pytest.mark.parametrize("bad", [(0, 5, 1, 1), (3, 2, 1, 1), (1, 2, 0, 1), (1, 2, 1, 0)])
def test_settings_that_make_no_sense_are_refused(bad: tuple[int, ...]) -> None:
    with pytest.raises(InvalidValueError):
        GateSettings(*bad)


@pytest.mark.parametrize("compat", ["gatemark", "source"])
@given(stream=STREAMS)
@settings(deadline=None, max_examples=150)
def test_many_pieces_at_a_time_come_through_as_one_by_one(compat, stream) -> None:
    many, single = TokenGate(SMALL, compat), TokenGate(SMALL, compat)
    moments = list(accumulate(wait for _, _, wait in stream))
    pieces = [
        (agent, text, now, seq)
        for seq, ((agent, text, _), now) in enumerate(zip(stream, moments, strict=True))
    ]
    expected = [single.add(*piece) for piece in pieces]
    assert list(many.add_all(pieces)) == [one for one in expected if one is not None]
    assert list(many.flush_all("end_of_trace")) == list(single.flush_all("end_of_trace"))
