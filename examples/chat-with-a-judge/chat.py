"""A chat, and a judge that asks for a friendly opening. Both stand in for models."""

import re


def old(question: str) -> str:
    return "I am glad to help. " + question.partition(" about ")[2]


def new(question: str) -> str:
    return "Read the page on this. " + question.partition(" about ")[2]


def grade(prompt: str) -> str:
    nonce = re.search(r"GRADE (\S+): LABEL", prompt)[1]
    label = "CORRECT" if "glad to help" in prompt else "INCORRECT"
    return f"The opening decides.\nGRADE {nonce}: {label}"
