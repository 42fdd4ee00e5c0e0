"""The lifecycle events, one class per kind: payload, effect on the state, and sentence.

``fact`` has what they share. Importing this package declares all of them to the ledger.
"""

from gatemark.release.lifecycle.events import approvals, canary, governance, moves, versions

__all__ = ["approvals", "canary", "governance", "moves", "versions"]
