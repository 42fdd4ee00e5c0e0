"""OpenVINO without its telemetry: importing it looks up no host and writes nothing to the home.

OpenVINO reports its import to an analytics service and keeps an id of the user in ``~/intel``. It
does neither where its telemetry package cannot be imported, which is what the entry below says.
"""

from __future__ import annotations

import sys
from typing import Any, cast

# None is what the interpreter itself puts here for a module that must not be imported.
cast("dict[str, Any]", sys.modules).setdefault("openvino_telemetry", None)

import openvino as ov  # noqa: E402 - only after the switch

__all__ = ["ov"]
