"""What drift adds to the verification of a store: its tables are compared with events."""

from __future__ import annotations

from gatemark.integrity import StoreChecks
from gatemark.ledger.checks.tables import FeatureRows, RowCheck
from gatemark.ledger.event_kinds import DRIFT_RECORDED, DRIFT_SIGNAL, POINTS_PUSHED
from gatemark.release.drift.stores.tables import ACTS, EPISODES, LEVELS, POINTS, REVISIONS
from gatemark.workspace import Workspace


def _drift_rows(workspace: Workspace) -> FeatureRows:
    """Return the drift tables and the function that compares them."""

    def opened() -> RowCheck:
        from gatemark.release.drift.table_check import DriftTables  # noqa: PLC0415 - loads numerics

        return DriftTables(workspace)

    return FeatureRows(
        kinds=frozenset({DRIFT_SIGNAL, DRIFT_RECORDED}),
        looked_up=frozenset({POINTS_PUSHED}),
        tables=(POINTS, REVISIONS, LEVELS, EPISODES, ACTS),
        open=opened,
    )


STORE_CHECKS = StoreChecks(name="drift", rows=_drift_rows)
