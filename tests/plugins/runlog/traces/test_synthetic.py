from __future__ import annotations

import gzip
import itertools
import json
import random

import pytest
from tests.plugins.runlog.talks import looked_at

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import settings_as
from gatemark.plugins.runlog.traces.dataset import (
    build_case_list,
    build_trace_entry,
    find_dataset_hash,
    list_manifest_records,
    make_manifest,
    select_cases,
)
from gatemark.plugins.runlog.traces.files import pack_gzip, render_json_lines
from gatemark.plugins.runlog.traces.synthetic import (
    DOMAINS,
    FORK,
    SyntheticSettings,
    describe_campaign,
    list_case_ids,
    list_stub_case_ids,
    make_stub_trace,
    make_synthetic_trace,
)
from gatemark.plugins.runlog.traces.trace import build_trace
from gatemark.testing.schemas import run_file_rules

SETTINGS = SyntheticSettings(cases=6, rounds=(1, 2), sentences=(1, 3))
CASES = build_case_list(list_case_ids(SETTINGS))
ORIGIN = describe_campaign(SETTINGS, CASES.hash, "unknown")


@pytest.mark.parametrize("case_id", CASES.case_ids)
def test_every_trace_keeps_every_rule(case_id: str) -> None:
    rules, remarks = looked_at(make_synthetic_trace(case_id, SETTINGS, ORIGIN))
    assert remarks == []
    made = build_trace(rules)
    domain = DOMAINS[case_id.split("-")[1]]
    assert {turn.agent_id for turn in made.turns} <= {*domain.agents, domain.chair}
    assert made.turns[-1].reason == "terminate_sentinel"
    assert {turn.plane for turn in made.turns} == {"control_plane", "content_plane"}
    assert not any("{" in turn.text for turn in made.turns)


def test_a_case_depends_on_its_seed_and_name_alone() -> None:
    one = make_synthetic_trace("case-incident-0001", SETTINGS, ORIGIN)
    more = SyntheticSettings(cases=600, rounds=(1, 2), sentences=(1, 3))
    assert make_synthetic_trace("case-incident-0001", more, ORIGIN) == one
    other = SyntheticSettings(cases=6, rounds=(1, 2), sentences=(1, 3), seed=8)
    assert make_synthetic_trace("case-incident-0001", other, ORIGIN) != one


def test_deltas_are_pieces_of_words() -> None:
    records = make_synthetic_trace("case-clinical-0000", SyntheticSettings(), ORIGIN)
    texts = [record.delta_text for record in records if hasattr(record, "delta_text")]
    assert max(map(len, texts)) <= 12
    assert any(
        not left.endswith(" ") and right[0].isalpha() for left, right in itertools.pairwise(texts)
    )


def test_some_teams_talk_at_the_same_time() -> None:
    settings = SyntheticSettings(cases=20, domains=("incident",))
    overlaps = 0
    for case_id in list_case_ids(settings)[:5]:
        made = build_trace(looked_at(make_synthetic_trace(case_id, settings, ORIGIN))[0])
        overlaps += sum(
            a.end_seq > b.start_seq for a, b in zip(made.turns, made.turns[1:], strict=False)
        )
    assert overlaps


def test_a_stub_says_that_it_is_one_and_has_the_written_times() -> None:
    records = make_stub_trace(list_stub_case_ids()[0], ORIGIN)
    assert not looked_at(records)[1]
    made = build_trace(looked_at(records)[0])
    assert made.is_stub
    assert [turn.agent_id for turn in made.turns] == [
        "supervisor",
        "doctor0",
        "doctor1",
        "supervisor",
    ]
    starts = [r.t_ms - 1_700_000_000_000 for r in records if getattr(r, "boundary", "") == "start"]
    assert starts == [0, 1000, 2000, 3000]
    first = next(record for record in records if hasattr(record, "delta_text"))
    assert first.t_emitted_ms == 1_700_000_000_050


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ({"cases": 0}, ">= 1"),
        ({"domains": ["space"]}, "domains must be some of clinical, incident, workshop"),
        ({"domains": []}, "domains must be some of"),
        ({"rounds": [3, 1]}, "rounds must be"),
        ({"case": 3}, "unknown field"),
    ],
)
def test_settings_that_make_no_sense_are_refused(raw, complaint) -> None:
    with pytest.raises(BadInputError, match=complaint):
        settings_as(raw, SyntheticSettings, "f.yaml")


def test_a_case_of_other_settings_is_refused() -> None:
    with pytest.raises(BadInputError, match="these settings have no case"):
        make_synthetic_trace("case-space-0001", SETTINGS, ORIGIN)


def test_the_fixed_subset_is_the_published_draw() -> None:
    known = [f"case-{number}" for number in range(302)]
    expected = sorted(random.Random(42).sample(sorted(known), 40))
    assert select_cases(reversed(known), "fixed_subset") == expected
    assert select_cases(known, "all") == sorted(known)
    assert select_cases(known, "list", wanted=["case-7", "case-10"]) == ["case-10", "case-7"]


def test_a_choice_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(BadInputError, match="case 'b' is not among the 1 known cases"):
        select_cases(["a"], "list", wanted=["b"])
    with pytest.raises(BadInputError, match="cannot draw 40 cases from 1"):
        select_cases(["a"], "fixed_subset")


def test_the_case_list_is_compact_sorted_lines() -> None:
    found = build_case_list(["case-b", "case-a"])
    assert found.data == b'{"case_id":"case-b","index":0}\n{"case_id":"case-a","index":1}\n'
    assert found.hash == digest_bytes(found.data)


def test_a_manifest_adds_up_and_pins_the_uncompressed_content() -> None:
    entries = []
    for case_id in CASES.case_ids:
        records = make_synthetic_trace(case_id, SETTINGS, ORIGIN)
        data = render_json_lines(records, ascii_only=True)
        assert gzip.decompress(pack_gzip(data)) == data
        entries.append(
            build_trace_entry(case_id, f"{case_id}.trace.jsonl.gz", digest_bytes(data), records)
        )
    manifest = make_manifest(
        ORIGIN,
        CASES,
        entries,
        created_at="2023-11-14T22:13:20.000Z",
        config_hash=CASES.hash,
        fork_url=FORK,
    )
    lines = [
        json.loads(line) for line in render_json_lines(list_manifest_records(manifest)).splitlines()
    ]
    assert not run_file_rules(_schema(), lines)
    assert find_dataset_hash(manifest) == manifest.provenance.trace_dataset_hash
    assert [line["record_type"] for line in lines] == [
        "manifest_meta",
        "provenance",
        *["trace_entry"] * 6,
        "summary",
    ]


def _schema():
    from gatemark.evidence.record_schemas import schemas

    return schemas().get("exaid.manifest")
