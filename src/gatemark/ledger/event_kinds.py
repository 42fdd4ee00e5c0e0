"""The kinds of governance events. Their names are stored and never change."""

from __future__ import annotations

from typing import Final

RESULT_SEALED: Final = "result_sealed"
ASSET_REGISTERED: Final = "asset_registered"
APPROVAL: Final = "approval"
TRANSITION: Final = "transition"
DRIFT_SIGNAL: Final = "drift_signal"
WAIVER: Final = "waiver"
OVERRIDE: Final = "override"
BREAK_GLASS: Final = "break_glass"
POLICY_CHANGED: Final = "policy_changed"
EXAM_SET: Final = "exam_set"
CANARY_JUDGED: Final = "canary_judged"
LEDGER_OPENED: Final = "ledger_opened"
KEY_ADDED: Final = "key_added"
KEY_ROTATED: Final = "key_rotated"
KEY_REPLACED: Final = "key_replaced_without_signature"
PAYLOAD_ERASED: Final = "payload_erased"
BLOB_ERASED: Final = "blob_erased"
CLOCK_SET_BACK: Final = "clock_set_back"
ROLES_GRANTED: Final = "roles_granted"
PAUSE: Final = "pause"
BREAK_GLASS_REVIEWED: Final = "break_glass_reviewed"
CANARY_WINDOW: Final = "canary_window"
WATCH_CLOSED: Final = "watch_closed"
SERVICE_REPORTED: Final = "service_reported"
REVIEW_CREATED: Final = "review_created"
REVIEW_LOOKED_AT: Final = "review_looked_at"
REVIEW_UNBLINDED: Final = "review_unblinded"
LABELS_ACCEPTED: Final = "labels_accepted"
ATTRIBUTION_SEALED: Final = "attribution_sealed"
ATTRIBUTION_REVIEWED: Final = "attribution_reviewed"
POINTS_PUSHED: Final = "points_pushed"
DRIFT_RECORDED: Final = "drift_recorded"
SIGNED_IN: Final = "signed_in"
SIGN_IN_FAILED: Final = "sign_in_failed"
SIGNED_OUT: Final = "signed_out"
ACCOUNT_ADDED: Final = "account_added"
ACCOUNT_CLOSED: Final = "account_closed"
LINK_MADE: Final = "join_link_made"
PASSWORD_SET: Final = "password_set"  # noqa: S105 - a kind of event
TOKEN_MADE: Final = "token_made"  # noqa: S105
TOKEN_REVOKED: Final = "token_revoked"  # noqa: S105
CHECKPOINT_ASKED: Final = "checkpoint_asked"
SCHEDULE_OVERDUE: Final = "schedule_overdue"

KINDS: Final[dict[str, str]] = {
    RESULT_SEALED: "a result is sealed, or the same judgement is reached again",
    ASSET_REGISTERED: "a version of an asset is added",
    APPROVAL: "a person approves or rejects a step",
    TRANSITION: "a version moves to another stage",
    DRIFT_SIGNAL: "drift is seen, gets worse, or is over",
    WAIVER: "a person excuses a gate for a time",
    OVERRIDE: "a version moves although a gate stood against it",
    BREAK_GLASS: "a person acts without the usual approvals",
    POLICY_CHANGED: "a release policy takes effect, the default one included",
    EXAM_SET: "the full pack of an asset is set",
    CANARY_JUDGED: "a canary window is judged",
    LEDGER_OPENED: "a ledger is opened before its first key",
    KEY_ADDED: "the first signing key is added",
    KEY_ROTATED: "a key follows another, signed by both",
    KEY_REPLACED: "a lost key is replaced",
    PAYLOAD_ERASED: "a payload is erased",
    BLOB_ERASED: "a blob is erased",
    CLOCK_SET_BACK: "times start again after a clock that was ahead",
    ROLES_GRANTED: "the roles of a person change",
    PAUSE: "a version is paused or resumed",
    BREAK_GLASS_REVIEWED: "a second person reviews a break-glass act",
    CANARY_WINDOW: "measurements of a canary window arrive",
    WATCH_CLOSED: "the watch after enabling ends",
    SERVICE_REPORTED: "a service reports good and bad events",
    REVIEW_CREATED: "a blind review is created",
    REVIEW_LOOKED_AT: "somebody looks at an open review",
    REVIEW_UNBLINDED: "a blind review is closed and its key shown",
    LABELS_ACCEPTED: "labels that people gave are accepted",
    ATTRIBUTION_SEALED: "a failure is attributed to a step",
    ATTRIBUTION_REVIEWED: "people judge what an attribution proposes",
    POINTS_PUSHED: "drift points are pushed, or covered by an upgrade",
    DRIFT_RECORDED: "a probe records what it remembers",
    SIGNED_IN: "a person signs in to the page",
    SIGN_IN_FAILED: "a sign-in fails",
    SIGNED_OUT: "a person signs out",
    ACCOUNT_ADDED: "an account is added",
    ACCOUNT_CLOSED: "an account is closed",
    LINK_MADE: "a link to join or to set a password is made",
    PASSWORD_SET: "a person sets a password",
    TOKEN_MADE: "an access token is made",
    TOKEN_REVOKED: "an access token is revoked",
    CHECKPOINT_ASKED: "somebody asks for a signed checkpoint in the page",
    SCHEDULE_OVERDUE: "a scheduled run is overdue",
}
"""Every kind of event that this build writes, and when it is written."""
