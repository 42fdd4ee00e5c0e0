"""Opening the reference gateway: the models compiled, the port taken, nothing served yet."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from gatemark.core.errors import UsageError
from gatemark.exams.advisory.gateway.server import Gateway

DeviceChoice = Literal["AUTO", "NPU", "CPU"]


def open_gateway(port: int, device: DeviceChoice, busy_counter: str) -> Gateway:
    """A gateway that is ready to serve; the caller runs ``serve_forever`` and ``finish``."""
    try:
        from gatemark.exams.advisory.gateway.advisor import Advisor  # noqa: PLC0415 - an extra that few need
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the gateway needs the package {error.name!r}: install gatemark[openvino]"
        ) from error
    advisor = Advisor(device, counter=Path(busy_counter))
    return Gateway(port, advise=advisor.advise, health=advisor.health)
