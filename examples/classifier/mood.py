"""Two classifiers of mood: the new one is as often right, and far too sure of itself."""

ANGRY = ("broken", "late", "awful")


def _label(text: str) -> str:
    return "angry" if any(word in text for word in ANGRY) else "happy"


def old(text: str) -> dict[str, object]:
    return {"output": _label(text), "confidence": 0.9}


def new(text: str) -> dict[str, object]:
    return {"output": _label(text), "confidence": 0.999}
