"""Read the sinks of a workspace from a YAML file."""

from __future__ import annotations

from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.release.alerts.alert import AlertPlan

HEAD: Final = "gatemark_alerts"


def read_alert_plan(path: str) -> AlertPlan:
    """Read the sinks from a YAML file."""
    value = read_settings(path)
    if not isinstance(value, dict) or value.pop(HEAD, None) != 1:
        raise BadInputError(f"{path}: must start with {HEAD}: 1")
    try:
        plan = msgspec.convert(value, AlertPlan)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not plan.sinks:
        raise BadInputError(f"{path}: has no sinks, so nobody would get the alerts")
    return plan
