"""Make the data of the small examples: ``python tools/make_examples.py``.

All of it is invented. Each function returns the files of one example, by name.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "examples"
PLANTS: Final = ("fern", "cactus", "orchid", "ivy", "basil", "palm", "lily", "moss")
FACTS: Final = {
    "water": ("How often does a {plant} need water?", "every {number} days"),
    "light": ("How much light does a {plant} need?", "{number} hours of light"),
    "cold": ("How cold may it be for a {plant}?", "not below {number} degrees"),
    "feed": ("How often is a {plant} fed?", "every {number} weeks"),
}


def lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as JSON Lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def rag() -> dict[str, str]:
    """Documents about plants, and questions with the fact and the document that answer them."""
    documents: dict[str, Any] = {}
    questions: list[dict[str, Any]] = []
    for first, plant in enumerate(PLANTS):
        for second, (topic, (question, fact)) in enumerate(FACTS.items()):
            number = 2 + (7 * first + 3 * second) % 19
            name = f"doc-{4 * first + second + 1}"
            told = fact.format(number=number)
            documents[name] = {"title": f"{plant} care", "text": f"A {plant}: {topic}, {told}."}
            for wording in (question, f"My {plant} looks sad. {question}", f"Hello! {question}"):
                checks = [
                    {"scorer": "contains", "options": {"phrases": [told]}},
                    {"scorer": "canary", "options": {"allowed_citations": [name]}},
                ]
                row = {"id": f"q{len(questions) + 1:02}", "input": wording.format(plant=plant)}
                questions.append({**row, "tags": {"topic": topic}, "assert": checks})
    return {
        "documents.json": json.dumps(documents, indent=1) + "\n",
        "questions.jsonl": lines(questions),
    }


def classifier() -> dict[str, str]:
    """Short messages with their mood, and daily accuracy in production that falls at the end."""
    draw = random.Random(5)  # noqa: S311 - invented data, not a secret
    good, bad = ("lovely", "great", "thanks"), ("broken", "late", "awful")
    rows = []
    for number in range(300):
        mood = "happy" if number % 2 else "angry"
        word = draw.choice(good if mood == "happy" else bad)
        hedge = "" if draw.random() < 0.9 else "not so "
        label = mood if not hedge else {"happy": "angry", "angry": "happy"}[mood]
        rows.append({"id": f"m{number:03}", "input": f"{hedge}{word} parcel", "target": label})
    points = []
    for day in range(18):
        share = 0.92 if day < 16 else 0.80
        right = round(200 * share + draw.randint(-4, 4))
        start, end = f"2026-03-{day + 1:02}T00:00:00Z", f"2026-03-{day + 2:02}T00:00:00Z"
        points.append(
            {"asset": "mood", "metric": "golden_accuracy", "start": start, "end": end}
            | {"k": right, "n": 200}
        )
    return {"messages.jsonl": lines(rows), "points.jsonl": lines(points)}


def annotators() -> dict[str, str]:
    """Labels of two people for the same answers; Bo is lenient with one kind of answer."""
    draw = random.Random(3)  # noqa: S311 - invented data, not a secret
    files = {}
    truth = [draw.choice(("VALID", "VALID", "REJECT")) for _ in range(120)]
    for name, slip in (("ada", 0.02), ("bo", 0.05)):
        rows = []
        for number, label in enumerate(truth):
            said = label if draw.random() > slip else {"VALID": "REJECT"}.get(label, "VALID")
            rows.append({"qid": f"A{number:03}", "label": said})
        files[f"{name}.jsonl"] = lines(rows)
    return files


def judge() -> dict[str, str]:
    """Questions for a chat, and answers that people graded, to qualify the judge."""
    draw = random.Random(8)  # noqa: S311 - invented data, not a secret
    topics = ("refund", "delivery", "opening hours", "a broken cup", "an invoice")
    asked = [
        {
            "id": f"c{number:02}",
            "input": f"I have a question about {topics[number % 5]}, no. {number}.",
        }
        for number in range(40)
    ]
    graded = []
    for number in range(60):
        topic = topics[number % 5]
        is_good = draw.random() < 0.6
        output = f"I am glad to help with {topic}." if is_good else f"Read the page on {topic}."
        graded.append(
            {"id": f"g{number:02}", "input": f"I have a question about {topic}.", "output": output}
            | {"label": "CORRECT" if is_good else "INCORRECT"}
        )
    return {"questions.jsonl": lines(asked), "graded.jsonl": lines(graded)}


EXAMPLES: Final[dict[str, Callable[[], dict[str, str]]]] = {
    "rag-answers": rag,
    "classifier": classifier,
    "two-annotators": annotators,
    "chat-with-a-judge": judge,
}


def main() -> int:
    """Write the data of every example."""
    for name, make in EXAMPLES.items():
        for file, text in make().items():
            (FOLDER / name / file).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
