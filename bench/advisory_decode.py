"""A bare typed decode of advisory decisions: what reading them costs before anything is checked.

``python -m bench.advisory_decode FILE`` prints how many records there are.
"""

from __future__ import annotations

import gc
import sys

import msgspec

from gatemark.plugins.advisory.record import AdvisoryDecision

BLOCK_BYTES = 1 << 20


def main(path: str) -> None:
    """Decode a file in blocks of whole lines."""
    decode = msgspec.json.Decoder(AdvisoryDecision).decode_lines
    count = 0
    # Records form no cycles, so looking for some is no part of decoding.
    gc.disable()
    with open(path, "rb") as stream:  # noqa: PTH123
        while block := stream.read(BLOCK_BYTES):
            count += len(decode(block + stream.readline()))
    print(count)


if __name__ == "__main__":
    main(sys.argv[1])
