"""How often somebody may ask: a bucket per key that fills up again, and no more keys than fit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_KEYS: Final = 20_000


class Limiter:
    """Buckets of ``per_minute`` drops; a request takes one."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._size = float(per_minute)
        self._rate = per_minute / 60
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """0 when the request may go on, else how many seconds to wait."""
        now = self._clock()
        with self._lock:
            level, at = self._buckets.pop(key, (self._size, now))
            level = min(self._size, level + (now - at) * self._rate)
            is_free = level >= 1
            self._buckets[key] = (level - 1 if is_free else level, now)
            while len(self._buckets) > MAX_KEYS:
                self._buckets.popitem(last=False)
        return 0.0 if is_free else (1 - level) / self._rate
