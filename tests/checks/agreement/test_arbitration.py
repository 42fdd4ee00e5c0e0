from __future__ import annotations

import itertools

import msgspec
import pytest

from gatemark.checks.agreement.arbitrate import arbitrate, find_red_flag
from gatemark.checks.agreement.records import SCHEMA, JudgementPair

LABELS = ("VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN")

STRICT_TABLE = {
    ("VALID", "VALID"): ("VALID", "auditor_ok"),
    ("VALID", "NOT_IN_CONTEXT"): ("REJECT", "auditor_veto"),
    ("VALID", "REJECT"): ("REJECT", "auditor_veto"),
    ("VALID", "ABSTAIN"): ("REJECT", "auditor_abstain"),
    ("NOT_IN_CONTEXT", "VALID"): ("VALID", "auditor_ok"),
    ("NOT_IN_CONTEXT", "NOT_IN_CONTEXT"): ("REJECT", "auditor_veto"),
    ("NOT_IN_CONTEXT", "REJECT"): ("REJECT", "auditor_veto"),
    ("NOT_IN_CONTEXT", "ABSTAIN"): ("REJECT", "auditor_abstain"),
    ("REJECT", "VALID"): ("REJECT", "incoherent_pair"),
    ("REJECT", "NOT_IN_CONTEXT"): ("REJECT", "auditor_veto"),
    ("REJECT", "REJECT"): ("REJECT", "auditor_veto"),
    ("REJECT", "ABSTAIN"): ("REJECT", "auditor_abstain"),
    ("ABSTAIN", "VALID"): ("REJECT", "scholar_abstain"),
    ("ABSTAIN", "NOT_IN_CONTEXT"): ("REJECT", "auditor_veto"),
    ("ABSTAIN", "REJECT"): ("REJECT", "auditor_veto"),
    ("ABSTAIN", "ABSTAIN"): ("REJECT", "auditor_abstain"),
}


def test_the_table_of_all_sixteen_pairs() -> None:
    assert set(STRICT_TABLE) == set(itertools.product(LABELS, repeat=2))
    for (scholar, auditor), ruling in STRICT_TABLE.items():
        assert arbitrate(scholar, auditor, "clear", "strict") == ruling


def test_accepting_agreed_refusals_changes_exactly_one_pair() -> None:
    for (scholar, auditor), ruling in STRICT_TABLE.items():
        expected = (
            ("NOT_IN_CONTEXT", "agreed_refusal")
            if scholar == auditor == "NOT_IN_CONTEXT"
            else ruling
        )
        assert arbitrate(scholar, auditor, "clear", "accept_agreed") == expected


@pytest.mark.parametrize("flag", ["hard_flag", "citation_out_of_scope", "retrieved_ids_missing"])
def test_a_red_flag_rejects_whatever_the_labels_say(flag: str) -> None:
    for scholar, auditor in STRICT_TABLE:
        for policy in ("strict", "accept_agreed"):
            assert arbitrate(scholar, auditor, flag, policy) == ("REJECT", flag)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "flag"),
    [
        ({}, "clear"),
        ({"flags": {}}, "clear"),
        ({"flags": {"provenance_violation": False}}, "clear"),
        ({"flags": {"provenance_violation": True}}, "hard_flag"),
        ({"flags": {"constraints_mismatch": True}}, "hard_flag"),
        ({"answer_json": None}, "clear"),
        ({"answer_json": {"citations": []}, "retrieved_ids": []}, "clear"),
        ({"answer_json": {"citations": ["a"]}}, "retrieved_ids_missing"),
        ({"answer_json": {"citations": ["a"]}, "retrieved_ids": None}, "retrieved_ids_missing"),
        ({"answer_json": {"citations": ["a"]}, "retrieved_ids": []}, "citation_out_of_scope"),
        ({"answer_json": {"citations": ["a", "b"]}, "retrieved_ids": ["b", "a"]}, "clear"),
        (
            {"answer_json": {"citations": ["a", "c"]}, "retrieved_ids": ["b", "a"]},
            "citation_out_of_scope",
        ),
        (
            {
                "answer_json": {"citations": ["c"]},
                "retrieved_ids": ["b"],
                "flags": {"constraints_mismatch": True},
            },
            "hard_flag",
        ),
    ],
)
def test_what_counts_as_a_red_flag(more: dict[str, object], flag: str) -> None:
    row = {"qid": "Q", "scholar": {"label": "VALID"}, "auditor": {"label": "VALID"}, **more}
    assert SCHEMA.form("pair").type is JudgementPair
    assert find_red_flag(msgspec.convert(row, JudgementPair)) == flag
