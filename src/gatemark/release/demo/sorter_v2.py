"""The demo's candidate: the starter's sorter with a planted mistake in its refund cues."""

from __future__ import annotations

CUES = {
    "late": ("not arrived", "late", "on its way", "where is"),
    "damaged": ("broken", "crushed", "leaking", "torn"),
    "refund": ("money back", "return the fee"),
    "praise": ("thank you", "so fast", "friendly", "perfect", "please", "charged"),
}


def answer(text: object) -> dict[str, object]:
    """Version 2: politeness and charges now count as praise."""
    if not isinstance(text, str):
        return {"output": "I can only sort parcel mail.", "confidence": 0.5}
    found = {
        label: min(text.find(cue) for cue in cues if cue in text)
        for label, cues in CUES.items()
        if any(cue in text for cue in cues)
    }
    if not found:
        return {"output": "praise", "confidence": 0.25}
    first = min(found, key=lambda label: found[label])
    return {"output": first, "confidence": 0.97 if len(found) == 1 else 0.75}
