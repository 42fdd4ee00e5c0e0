"""Ledger events of reviews and label sets."""

from __future__ import annotations

from typing import Final

from gatemark.ledger.event_kinds import declare_plain

REVIEW_CREATED: Final = declare_plain("review_created", "a blind review is created")
REVIEW_LOOKED_AT: Final = declare_plain("review_looked_at", "somebody looks at an open review")
REVIEW_UNBLINDED: Final = declare_plain(
    "review_unblinded", "a blind review is closed and its key shown"
)
VOTE_CAST: Final = declare_plain(
    "review_vote_cast", "a reviewer votes in a blind review, or changes a vote"
)
LABELS_CREATED: Final = declare_plain("labels_created", "a label set is made")
LABEL_GIVEN: Final = declare_plain("label_given", "a reviewer labels an item, or changes a label")
LABELS_ACCEPTED: Final = declare_plain("labels_accepted", "labels that people gave are accepted")
