"""The options of the runner: how many calls at once, how long, how often and at what cost."""

from __future__ import annotations

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.targets.journal import Reuse
from gatemark.targets.spending import Budget, Prices

DEFAULT_MAX_REPLY_BYTES = 4 * 1024 * 1024


class RunOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that the runner needs besides the calls.

    ``retries`` counts attempts after the first. A Retry-After beyond ``retry_after_max_s`` is not
    waited for. ``is_remote`` means that calls go to a service: a call that times out counts as not
    made, and the first call goes alone. After ``stop_after`` failed calls of this kind in a row the
    run ends; None is for recordings. ``ahead`` is how many calls per slot are passed to a target
    with its own queue.
    """

    concurrency: int = 1
    ahead: int = 1
    is_remote: bool = False
    stop_after: int | None = 10
    timeout_s: float | None = None
    retries: int = 0
    backoff_base_s: float = 0.5
    backoff_max_s: float = 30.0
    retry_after_max_s: float = 120.0
    rate_per_s: float | None = None
    burst: int = 1
    timeout_hint: str = ""
    """Added to the message about a call that took too long."""
    max_reply_bytes: int = DEFAULT_MAX_REPLY_BYTES
    budget: Budget = Budget()
    prices: Prices | None = None
    reuse: Reuse = "resume"

    def __post_init__(self) -> None:
        at_least = {
            "concurrency": 1,
            "ahead": 1,
            "retries": 0,
            "backoff_base_s": 0,
            "backoff_max_s": 0,
            "retry_after_max_s": 0,
            "burst": 1,
            "max_reply_bytes": 1,
        }
        for name, low in at_least.items():
            if not getattr(self, name) >= low:
                raise InvalidValueError(f"{name} must be >= {low}, got {getattr(self, name)}")
        for name in ("timeout_s", "rate_per_s", "stop_after"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidValueError(f"{name} must be > 0, got {value}")
