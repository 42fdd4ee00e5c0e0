"""The peak of the resident memory of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Final

RESET_PEAK: Final = "5"
"""Written to ``clear_refs`` to reset the peak to the current size."""


class ProcessPeak:
    """Read the peak of the resident memory of this process since the last reset; Linux has one.

    Resetting costs microseconds, so a pass can be measured while it is timed.
    """

    def __init__(self, folder: Path = Path("/proc/self")) -> None:
        self._folder = folder

    def reset(self) -> str | None:
        """Reset the peak to the current size; return the reason if that is not possible."""
        try:
            (self._folder / "clear_refs").write_text(RESET_PEAK, encoding="ascii")
        except OSError as error:
            return f"this system cannot reset the peak memory of a process ({error.strerror})"
        return None

    def read(self) -> int | str:
        """Return the peak in bytes, or the reason why it is unknown."""
        try:
            status = (self._folder / "status").read_text(encoding="ascii", errors="replace")
        except OSError as error:
            return f"this system does not report the peak memory of a process ({error.strerror})"
        for line in status.splitlines():
            name, _, value = line.partition(":")
            if name == "VmHWM" and value.split()[1:] == ["kB"]:
                return int(value.split()[0]) * 1024
        return "this system does not report the peak memory of a process (no VmHWM)"
