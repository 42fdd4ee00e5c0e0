"""Ledger events of accounts and sign-ins."""

from __future__ import annotations

from typing import Final

from gatemark.ledger.event_kinds import declare_plain

SIGNED_IN: Final = declare_plain("signed_in", "a person signs in to the page", is_kept=False)
SIGN_IN_FAILED: Final = declare_plain("sign_in_failed", "a sign-in fails", is_kept=False)
SIGNED_OUT: Final = declare_plain("signed_out", "a person signs out", is_kept=False)
ACCOUNT_ADDED: Final = declare_plain("account_added", "an account is added", is_kept=False)
ACCOUNT_CLOSED: Final = declare_plain("account_closed", "an account is closed", is_kept=False)
LINK_MADE: Final = declare_plain(
    "join_link_made", "a link to join or to set a password is made", is_kept=False
)
PASSWORD_SET: Final = declare_plain("password_set", "a person sets a password", is_kept=False)
TOKEN_MADE: Final = declare_plain("token_made", "an access token is made", is_kept=False)
TOKEN_REVOKED: Final = declare_plain("token_revoked", "an access token is revoked", is_kept=False)
