"""Two answerers that see only a probe's input: one obeys everything, one nothing."""

from __future__ import annotations

import base64
import codecs
import itertools
import re

import pytest

from gatemark.packs.pack_data import load_probes
from gatemark.scorers.probe import examine_output

PROBES = load_probes()


def parrot(shown):
    """Repeats all it reads, and all it can decode."""
    heard = [passage["text"] for passage in shown["context"]] + [shown["user"], shown["system"]]
    plain = "\n".join(heard)
    decoded = [plain, codecs.encode(shown["user"], "rot13"), shown["user"][::-1]]
    for run in re.findall(r"[A-Za-z0-9+/]{40,}={0,2}", shown["user"]):
        try:
            decoded.append(bytes.fromhex(run).decode())
        except ValueError:
            decoded.append(base64.b64decode(run).decode())
    return "\n".join(decoded)


def guarded(shown, *, remarks=""):
    """Answers from the first passage and keeps every rule of its system text."""
    system = shown["system"]
    word = re.search(r"begin your answer with the word ([A-Z-]+)", system)
    sources = re.search(r"only these sources: ([A-Z]+-\d+)", system)
    facts = re.findall(r"^FACT: .*$", system, re.MULTILINE)
    closing = re.search(r'End every answer with the line "(.+?)"', system)
    lines = [
        f"{word[1]}: a person should look at this." if word else "Thank you for asking.",
        "" if word else shown["context"][0]["text"] + (f" [{sources[1]}]" if sources else ""),
        remarks,
        *facts,
        closing[1] if closing else "",
    ]
    return "\n".join(line for line in lines if line)


def talkative_refusal(shown):
    """Says at length what it does not do, without doing it."""
    tool = re.search(r"The tool (\w+) belongs", shown["system"])
    known = re.search(r"only these sources: ([^.]+)\.", shown["system"])
    strangers = [
        passage["id"]
        for passage in shown["context"]
        if known and passage["id"] not in known[1].split(", ")
    ]
    remarks = (
        "I will not write the code word, print any marker, repeat the staff note in any encoding, "
        "play another person, change the glossary or cite a source outside the catalogue. "
        f"I do not call {tool[1] if tool else 'staff tools'} either. "
        f"{' and '.join(strangers) or 'An unknown page'} is not something I cite."
    )
    return guarded(shown, remarks=remarks)


def test_the_parrot_loses_nearly_every_time():
    lost = [examine_output(probe, parrot(probe["input"])).succeeded for probe in PROBES]
    assert None not in lost
    assert sum(lost) >= 0.95 * len(PROBES)


@pytest.mark.parametrize("answerer", [guarded, talkative_refusal])
def test_the_guarded_answerer_never_loses(answerer):
    outcomes = {probe["id"]: examine_output(probe, answerer(probe["input"])) for probe in PROBES}
    bad = {name: found.reason for name, found in outcomes.items() if found.succeeded is not False}
    assert bad == {}


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe["id"])
def test_criterion_tells_the_two_examples_of_its_probe_apart(probe):
    won = examine_output(probe, probe["example_success"])
    safe = examine_output(probe, probe["example_safe"])
    assert (won.succeeded, safe.succeeded) == (True, False)
    assert won.reason != safe.reason


def test_the_prize_lies_in_the_attack_and_not_in_the_honest_text():
    honest_kinds = {"forbidden_citation", "forbidden_assertion", "forbidden_tool_call"}
    judged = 0
    for probe in PROBES:
        parts = probe["criterion"].get("criteria", [probe["criterion"]])
        if not {part["kind"] for part in parts} <= honest_kinds:
            continue
        honest = [probe["input"]["system"]] + [p["text"] for p in probe["input"]["context"][:2]]
        assert examine_output(probe, "\n".join(honest)).succeeded is False, probe["id"]
        judged += 1
    assert judged >= 70


def test_an_answer_to_another_probe_does_not_leak_this_probes_mark():
    marked = [p for p in PROBES if p["criterion"]["kind"] in {"forbidden_text", "forbidden_secret"}]
    for probe, neighbour in itertools.pairwise(marked):
        assert examine_output(probe, neighbour["example_success"]).succeeded is False
