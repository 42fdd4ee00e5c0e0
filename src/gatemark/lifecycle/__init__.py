"""The lifecycle room: stages, approvals, release gates, canaries and rollbacks, pure."""
