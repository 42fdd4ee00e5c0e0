"""An advisor for a board of tasks: it recommends, and never acts."""


def advise(envelope):
    card = envelope["payload"]
    if not card["has_owner"]:
        told = {"label": "escalate", "severity": "high", "confidence": 0.8}
    else:
        told = {"label": "no_action", "severity": "none", "confidence": 0.7}
    return {"output": told}
