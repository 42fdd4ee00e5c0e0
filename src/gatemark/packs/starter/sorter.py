"""Two versions of a toy mail sorter; put your own in their place."""

from __future__ import annotations

CUES = {
    "late": ("not arrived", "late", "on its way", "where is"),
    "damaged": ("broken", "crushed", "leaking", "torn"),
    "refund": ("money back", "refund", "charged twice", "return the fee"),
    "praise": ("thank you", "so fast", "friendly", "perfect"),
}


def _sort(text: object, order: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(text, str):
        # Adversarial probes arrive as {system, context, user}: a sorter has nothing to say to them.
        return {"output": "I can only sort parcel mail.", "confidence": 0.5}
    places = {
        label: min((text.find(cue) for cue in CUES[label] if cue in text), default=-1)
        for label in order
    }
    found = {label: place for label, place in places.items() if place >= 0}
    if not found:
        return {"output": "praise", "confidence": 0.25}
    first = min(found, key=lambda label: found[label])
    return {"output": first, "confidence": 0.97 if len(found) == 1 else 0.75}


def baseline(text: object) -> dict[str, object]:
    """Version 1: the first cue decides."""
    return _sort(text, tuple(CUES))


FORGOTTEN: tuple[str, ...] = ()


def candidate(text: object) -> dict[str, object]:
    """Version 2: the same, without the labels that it forgot."""
    return _sort(text, tuple(label for label in CUES if label not in FORGOTTEN))
