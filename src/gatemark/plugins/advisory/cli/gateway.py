"""``gatemark advisory gateway``: the reference gateway as a process."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import get_args

import click

from gatemark.cli.options import StrictCommand, busy_counter_option
from gatemark.cli.screen import say
from gatemark.core.errors import ExitCode
from gatemark.plugins.advisory.dry_run.envelope import DeviceChoice
from gatemark.plugins.advisory.gateway.server import open_gateway

POLL_S = 1.0
"""The system may hand a signal to another thread, which does not wake a wait without an end."""


@click.command("gateway", cls=StrictCommand)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8719,
    show_default=True,
    help="Port on 127.0.0.1; 0 chooses a free port and prints it.",
)
@click.option(
    "--device",
    type=click.Choice(get_args(DeviceChoice)),
    default="AUTO",
    show_default=True,
    help="Device. AUTO uses the NPU if there is one, else the CPU; every reply names it.",
)
@busy_counter_option
def gateway_command(port: int, device: DeviceChoice, busy_counter: str) -> int:
    """Serve the reference models on the loopback interface.

    Six lanes: POST /v1/advise takes an envelope, GET /health reports readiness. Prints its address
    first. Refuses envelopes that are malformed or ask for authority, and neither logs nor stores
    what is sent. Stops cleanly on Ctrl-C and SIGTERM.

    \b
    Examples:
      gatemark advisory gateway
      gatemark advisory gateway --port 0 --device CPU
    """
    stop = threading.Event()

    def stop_serving(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {
        number: signal.signal(number, stop_serving) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        gateway = open_gateway(port, device, busy_counter)
        serving = threading.Thread(target=gateway.serve_forever, args=(0.1,), daemon=True)
        serving.start()
        say(f"listening on {gateway.address}")
        for name, lane in gateway.health()["lanes"].items():
            note = "" if lane["fallback"] is None else f" ({lane['fallback']['reason']})"
            say(f"  {name}: {lane['device']} {lane['precision']}{note}")
        while not stop.wait(POLL_S):
            pass
        gateway.finish()
        serving.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    say("stopped", err=True)
    return ExitCode.PASS
