"""Drift of an asset: its watched metrics, their episodes and the actions."""

from __future__ import annotations

from gatemark.core.errors import UnknownNameError, UsageError
from gatemark.release.drift.policy_file import choose_drift_policy
from gatemark.release.drift.view import drift_view
from gatemark.release.drift.views.page import drift_context
from gatemark.release.drift.views.views import DriftView
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.parameters import ASSET
from gatemark.server.site import Site

doors = Doors("assets", {"asset": ASSET})


def asset_drift(site: Site, asset: str) -> DriftView:
    """Return the drift of an asset under the server's policy."""
    policy = choose_drift_policy(site.settings.drift_policy)
    return drift_view(site.workspace, policy, asset, site.workspace.clock())


def find_drift_context(site: Site, asset: str) -> dict[str, object] | None:
    """Return the template context of the drift of an asset, None if nothing of it is watched."""
    try:
        return drift_context(asset_drift(site, asset))
    except UsageError:
        return None


@doors.view("/assets/{asset}/drift", DriftView)
def get_drift(visit: Visit, asset: str) -> DriftView:
    """Return the watched metrics of an asset."""
    return asset_drift(visit.site, asset)


@get_drift.page("/assets/{asset}/drift", "drift.html")
def drift_page(visit: Visit, asset: str) -> Context:
    """Show the watched metrics of an asset, their episodes and the actions."""
    drift = find_drift_context(visit.site, asset)
    if drift is None:
        raise UnknownNameError(
            f"no points of {asset} were pushed yet; push some with 'gatemark drift push'"
        )
    return {**drift, "asset_of_page": asset}
