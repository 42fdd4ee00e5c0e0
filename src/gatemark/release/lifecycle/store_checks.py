"""What the lifecycle adds to the verification of a store: every decision follows from its rules."""

from __future__ import annotations

from gatemark.integrity import StoreChecks
from gatemark.release.lifecycle.ledger_rules import RuleCheck

STORE_CHECKS = StoreChecks(name="lifecycle", rules=RuleCheck)
