"""What stores rely on: the kinds of events that released builds wrote, and how each is kept."""

from __future__ import annotations

import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.ledger.event_kinds import (
    EventKind,
    check_payload_format,
    declare,
    event_kinds,
    is_kept,
    is_statement,
    payload_format,
)

KEPT = [
    "access_given",
    "approval",
    "asset_registered",
    "attribution_reviewed",
    "attribution_sealed",
    "blob_erased",
    "break_glass",
    "break_glass_reviewed",
    "canary_judged",
    "canary_window",
    "clock_set_back",
    "drift_recorded",
    "drift_signal",
    "key_added",
    "key_replaced_without_signature",
    "key_rotated",
    "label_given",
    "labels_accepted",
    "labels_created",
    "ledger_opened",
    "override",
    "pause",
    "payload_erased",
    "points_pushed",
    "policy_changed",
    "required_pack_set",
    "result_sealed",
    "review_created",
    "review_looked_at",
    "review_unblinded",
    "review_vote_cast",
    "roles_granted",
    "service_reported",
    "transition",
    "waiver",
    "watch_closed",
]

ERASABLE = [
    "account_added",
    "account_closed",
    "checkpoint_asked",
    "join_link_made",
    "password_set",
    "schedule_overdue",
    "sign_in_failed",
    "signed_in",
    "signed_out",
    "token_made",
    "token_revoked",
]

STATEMENTS = ["approval", "break_glass", "override", "transition", "waiver"]

DECIDED = [
    "approval",
    "asset_registered",
    "break_glass",
    "break_glass_reviewed",
    "canary_judged",
    "canary_window",
    "override",
    "pause",
    "policy_changed",
    "required_pack_set",
    "roles_granted",
    "service_reported",
    "transition",
    "waiver",
    "watch_closed",
]


def test_names_never_change() -> None:
    assert set(event_kinds()) >= {*KEPT, *ERASABLE}


def test_what_decisions_rest_on_is_kept() -> None:
    assert [name for name in sorted([*KEPT, *ERASABLE]) if is_kept(name)] == KEPT


def test_what_leaves_the_ledger_as_a_signed_statement() -> None:
    assert [name for name in KEPT if is_statement(name)] == STATEMENTS


def test_what_the_rules_of_the_lifecycle_decide() -> None:
    assert [name for name in KEPT if event_kinds()[name].is_decided] == DECIDED


def test_kinds_of_others_have_no_format_and_may_be_erased() -> None:
    assert payload_format("noted") is None
    assert not is_kept("noted")
    assert check_payload_format("noted", None)


def test_a_later_version_cannot_be_read() -> None:
    assert check_payload_format("pause", "gatemark.event.pause/1")
    assert not check_payload_format("pause", "gatemark.event.pause/2")
    with pytest.raises(InvalidValueError, match="is not a format of pause"):
        check_payload_format("pause", "gatemark.event.approval/1")


def test_a_kind_is_declared_once() -> None:
    with pytest.raises(InvalidValueError, match="two kinds of event are called 'pause'"):
        declare(EventKind(name="pause", when="a second time"))
