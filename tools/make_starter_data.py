"""Makes the starter's data: an invented parcel service's mail, sorted by what it is about."""

from __future__ import annotations

import json
import random
from pathlib import Path

CUES = {
    "late": ("has not arrived", "is three days late", "still on its way", "where is"),
    "damaged": ("arrived broken", "the box was crushed", "leaking", "torn open"),
    "refund": ("want my money back", "please refund", "charged twice", "return the fee"),
    "praise": ("thank you", "so fast", "very friendly", "perfect service"),
}
NOUNS = ("the lamp", "my boots", "a crate of tea", "the globe", "two kites", "our clock")
PLACES = ("the north depot", "the harbour", "the old mill", "the station")


def messages(seed: int, count: int, prefix: str) -> list[dict[str, object]]:
    """Labelled messages; one in eight carries two cues, and the first decides."""
    draw = random.Random(seed)  # noqa: S311 - invented data, not a secret
    rows: list[dict[str, object]] = []
    for number in range(1, count + 1):
        label = draw.choice(tuple(CUES))
        noun, place = draw.choice(NOUNS), draw.choice(PLACES)
        text = f"Parcel {number} with {noun} from {place}: {draw.choice(CUES[label])}."
        if draw.random() < 0.125:
            text += f" Also, {draw.choice(CUES[draw.choice(tuple(CUES))])}."
        rows.append(
            {
                "id": f"{prefix}-{number:03d}",
                "input": text,
                "target": label,
                "tags": {"place": place.removeprefix("the ")},
            }
        )
    return rows


def write(folder: Path) -> None:
    """Write the starter's data files into a folder."""
    for name, rows in (
        ("golden.jsonl", messages(3, 240, "golden")),
        ("recent.jsonl", messages(4, 120, "recent")),
    ):
        text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parent / "data")
