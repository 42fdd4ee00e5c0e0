"""Read agreement evidence with msgspec alone: typed, block by block, nothing checked or counted."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from gatemark.checks.agreement.records import Judgement, JudgementPair
from gatemark.evidence.blocks import BLOCK_BYTES


def main(*paths: Path) -> None:
    decoder = msgspec.json.Decoder[object](Judgement if len(paths) > 1 else JudgementPair)
    for path in paths:
        with path.open("rb") as stream:
            while data := stream.read(BLOCK_BYTES):
                decoder.decode_lines(data + stream.readline())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
