"""The process in which a ``python:`` target runs. Started by path, never imported by the judge.

It first moves the protocol to its own file descriptors, so that nothing the target prints can reach
it, then reads its settings, gives up its permissions, and only then loads foreign code.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    """Set the process up and answer calls until the judge closes the pipe."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    settings = json.loads(_read_first_line(source))
    sys.path[:] = settings.pop("path")
    sys.argv[:] = [settings["reference"]]
    # The judge's modules can be imported only now.
    from gatemark.targets.isolation import die_with_parent, restrict  # noqa: PLC0415
    from gatemark.targets.workers.worker_loop import answer_calls  # noqa: PLC0415

    die_with_parent(settings.pop("parent"))
    isolation = settings.pop("isolation")
    if isolation is not None:
        restrict(**isolation)
    return answer_calls(source, sink, **settings)


def _read_first_line(source: int) -> bytes:
    line = bytearray()
    # Byte by byte: what follows belongs to the loop that answers.
    while (byte := os.read(source, 1)) and byte != b"\n":
        line += byte
    return bytes(line)


if __name__ == "__main__":
    raise SystemExit(main())
