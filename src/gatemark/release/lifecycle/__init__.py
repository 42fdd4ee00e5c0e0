"""The lifecycle of an asset: stages, approvals, canaries, routing and the release policy.

``act.act`` runs a command: ``decisions`` turns it into facts, and ``events`` defines how each
fact changes the state (``model``) and how it is displayed. ``state_cache`` reads states from the
ledger, ``routing`` returns the version that serves a key, and ``views`` has what commands and pages
show.
"""
