"""Makes the demo's pairs: an invented hotel's help desk before and after a prompt change.

The change is planted: the new prompt lets answers quote passages that nobody retrieved. The
scholar, who only reads the claim, still says VALID; the auditor, who checks provenance, rejects.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

TOPICS = (
    ("breakfast", "Breakfast is served from {h} to {k}.", "garden room"),
    ("parking", "Parking costs {h} crowns a night.", "lower yard"),
    ("pets", "Small dogs stay free for {h} nights.", "west wing"),
    ("late arrival", "The night desk opens the door until {k}.", "side entrance"),
    ("laundry", "Laundry handed in by {h} is back by {k}.", "cellar"),
    ("bicycles", "Bicycles are lent for {h} hours.", "shed"),
    ("quiet hours", "Music ends at {k} on every floor.", "bar"),
    ("cancellation", "Cancel {h} days ahead and pay nothing.", "front office"),
)
ROWS = 400


def rows(seed: int, *, stray_citation_rate: float) -> list[dict[str, Any]]:
    """One record per guest question."""
    draw = random.Random(seed)  # noqa: S311 - invented data, not a secret
    return [_row(number, draw, stray_citation_rate) for number in range(1, ROWS + 1)]


def _row(number: int, draw: random.Random, stray_citation_rate: float) -> dict[str, Any]:
    topic, sentence, place = draw.choice(TOPICS)
    hour = draw.randint(2, 11)
    claim = sentence.format(h=hour, k=hour + draw.randint(1, 12))
    page = f"{topic.replace(' ', '-')}#{draw.randint(1, 6)}"
    retrieved = [page, f"{topic.replace(' ', '-')}#{draw.randint(7, 9)}", "house-rules#1"]
    answer = {"claim": claim, "citations": [page], "constraints_echo": [claim]}
    flags = {"provenance_violation": False, "constraints_mismatch": False}
    kind = draw.choices(("answer", "refusal", "broken"), (70, 20, 10))[0]
    if kind == "refusal":
        scholar = auditor = ("NOT_IN_CONTEXT", f"nothing retrieved mentions the {place}")
        answer = {"claim": "not in context", "citations": [], "constraints_echo": []}
    elif kind == "broken":
        scholar = auditor = ("REJECT", f"the {place} passage gives another figure")
    elif draw.random() < stray_citation_rate:
        answer["citations"] = [f"{topic.replace(' ', '-')}#{draw.randint(20, 29)}"]
        scholar = ("VALID", "the claim reads like the passage")
        auditor = ("REJECT", "cites a passage that was not retrieved")
        flags["provenance_violation"] = True
    else:
        scholar = ("VALID", f"the claim stands in {page}")
        auditor = ("VALID", "sources retrieved, constraints repeated")
    noise = draw.random()
    if noise < 0.02 and not flags["provenance_violation"]:
        auditor = ("REJECT", "the constraint is repeated in other words")
    elif noise < 0.025:
        scholar = ("ABSTAIN", "two passages contradict each other")
    return {
        "qid": f"HOTEL-{number:04d}",
        "scholar": {"label": scholar[0], "reason": scholar[1]},
        "auditor": {"label": auditor[0], "reason": auditor[1]},
        "answer_json": answer,
        "retrieved_ids": retrieved,
        "flags": flags,
    }


FILES = {
    "pairs_baseline.jsonl": rows(7, stray_citation_rate=0.0),
    "pairs_candidate.jsonl": rows(8, stray_citation_rate=0.22),
}


def write(folder: Path) -> None:
    """Write every demo file into a folder."""
    for name, records in FILES.items():
        lines = [json.dumps(record, sort_keys=True) + "\n" for record in records]
        (folder / name).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parent)
