"""Import OpenVINO without its telemetry, so that it contacts no host and writes no files.

OpenVINO reports its import to an analytics service and stores a user id in ``~/intel``. It does
neither if its telemetry package cannot be imported, which the entry below ensures.
"""

from __future__ import annotations

import sys
from typing import Any, cast

# The interpreter itself uses None here for a module that must not be imported.
cast("dict[str, Any]", sys.modules).setdefault("openvino_telemetry", None)

import openvino as ov  # noqa: E402 - only after the switch

__all__ = ["ov"]
