from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import InvalidValueError
from gatemark.plugins.runlog.records.fields import are_moments, is_moment, parse_moment_ms
from gatemark.plugins.runlog.records.names import (
    count_ctu,
    find_case_of_trace_file,
    format_moment,
    hash_config,
    hash_decoding,
    hash_text,
    hash_tokengate_config,
    hash_trace_dataset,
    name_dataset,
    name_decision,
    name_eval_run,
    name_event,
    name_mas_run,
    name_trace_file,
    strip_case_id,
)

DECODING = {"temperature": 1.0, "max_tokens": 4096}
COMMIT = "1d5b227a" + "0" * 32
CASES = "sha256:d22060bf" + "0" * 56


def test_campaigns_have_the_published_names() -> None:
    assert hash_decoding(DECODING).startswith("sha256:0ad5f2b4")
    assert (
        name_mas_run(
            mac_commit=COMMIT, model="gpt-4o-mini", decoding=DECODING, case_list_hash=CASES
        )
        == "mas_1d5b227a_gpt4omini_0ad5f2b4_d22060bf"
    )
    assert name_dataset(mac_commit=COMMIT, decoding=DECODING, case_list_hash=CASES) == (
        "exaid_traces_1d5b227a_0ad5f2b4_d22060bf"
    )


def test_gate_configurations_have_the_published_hashes() -> None:
    gate = {
        "enabled": True,
        "min_words": 60,
        "max_words": 100,
        "silence_timer": 1,
        "max_wait_timeout": 4,
    }
    assert hash_tokengate_config(gate).startswith("sha256:67d6303e")
    assert hash_tokengate_config({"enabled": False}).startswith("sha256:5acf3ff7")


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        ("8D45CBB1ff", "eval-c173b1f8-8d45cbb1"),
        ("unknown", "eval-c173b1f8-00000000"),
        ("", "eval-c173b1f8-00000000"),
        ("1234", "eval-c173b1f8-00000000"),
    ],
)
def test_evaluations_are_named_by_traces_and_code(commit: str, expected: str) -> None:
    assert name_eval_run("sha256:c173b1f8" + "0" * 56, commit) == expected


def test_ids_have_three_digits_or_more() -> None:
    assert name_event("case-1", "V0", 7) == "case-1-V0-se-007"
    assert name_decision("case-1", "V4", 1234) == "case-1-V4-bd-1234"


@given(text=st.text(max_size=50))
def test_ctu_is_a_quarter_of_the_characters_rounded_up(text: str) -> None:
    assert count_ctu(text) == math.ceil(len(text) / 4)


@given(epoch_ms=st.integers(0, 4_102_444_800_000))
def test_moments_survive_being_written(epoch_ms: int) -> None:
    text = format_moment(epoch_ms)
    assert is_moment(text)
    assert text.endswith("Z")
    assert parse_moment_ms(text) == epoch_ms


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("2025-12-21T10:30:00.000Z", True),
        ("2025-12-21T10:30:00Z", True),
        ("2025-12-21T10:30:00.123456+00:00", True),
        ("2025-12-21T10:30:00", False),
        ("2025-12-21", False),
        ("2025-02-30T00:00:00Z", False),
        ("2025-W51-7T10:30:00Z", False),
        ("2025-12-21T10:30:00Z\n", False),
    ],
)
def test_a_moment_has_a_date_a_time_and_an_offset(text: str, good: bool) -> None:
    assert is_moment(text) is good


def test_file_names_lead_to_cases_and_back() -> None:
    assert name_trace_file("case-a.b/c") == "case-a-b-c.trace.jsonl.gz"
    assert find_case_of_trace_file("case-1.trace.jsonl.gz") == "case-1"
    assert find_case_of_trace_file("case-1.trace.jsonl") == "case-1"
    assert find_case_of_trace_file("case-1.jsonl.gz") is None
    assert strip_case_id("case-1.trace") == "case-1"


def test_the_hash_of_a_set_does_not_depend_on_the_order_of_traces() -> None:
    pairs = [("case-b", hash_text("b")), ("case-a", hash_text("a"))]
    both = [
        hash_trace_dataset(case_list_hash=CASES, mas_run="mas_x", traces=order)
        for order in (pairs, pairs[::-1])
    ]
    assert both[0] == both[1]
    by_hand = (
        f'{{"case_list_hash":"{CASES}","mas_run_id":"mas_x","traces":'
        f'[["case-a","{hash_text("a")}"],["case-b","{hash_text("b")}"]]}}'
    )
    assert both[0] == digest_bytes(by_hand.encode())


def test_configurations_are_hashed_one_after_the_other() -> None:
    assert hash_config([b"ab", b"c"]) == digest_bytes(b"abc")


moments = st.one_of(
    st.integers(0, 4_000_000_000_000).map(format_moment),
    st.sampled_from(
        [
            "2023-11-14T22:13:60.000Z",
            "2023-02-30T22:13:20.000Z",
            "2023-11-14T24:13:20.000Z",
            "2023-11-14T22:13:20,000Z",
            "2023-11-14T22:13:2\u0663.000Z",
            "2023-11-14T22:13:20Z.000",
            "2023-11-14T22:13:20.0000",
            "2023-11-14T22:13:20Z",
            "2023-11-14T22:13:20+01:00",
            "2023-11-14T22:13:20.\ud80000Z",
            "",
        ]
    ),
)


@given(st.lists(moments, max_size=6))
def test_many_moments_are_judged_as_each_of_them_is(texts: list[str]) -> None:
    assert are_moments(texts) == all(map(is_moment, texts))


@pytest.mark.parametrize("epoch_ms", [10**15, 10**40, -(10**15)])
def test_a_moment_that_no_calendar_has_is_refused_in_words(epoch_ms: int) -> None:
    with pytest.raises(InvalidValueError, match="between the years 1 and 9999"):
        format_moment(epoch_ms)
