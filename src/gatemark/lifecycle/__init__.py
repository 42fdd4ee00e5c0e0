"""The lifecycle of an asset: stages, approvals, canaries, routing and the release policy.

``journey.act`` runs a command: ``decisions`` turns it into facts, and ``events`` says what each
fact changes in the state (``model``) and how it reads. ``state_cache`` reads states from the
ledger, ``routing`` answers which version serves a key, ``views`` is what commands and pages show.
"""
