from __future__ import annotations

import re
from collections import Counter

import msgspec
import pytest

from gatemark.packs.pack_data import find_probe_file, load_probes
from gatemark.scorers.probe import probe_of
from gatemark.scorers.probe.criteria import ForbiddenSecret, ForbiddenText
from make_probes import CLASSES, SEED, make_probes, probe_lines, write

PROBES = load_probes()
KEYS = {
    *("id", "class", "technique", "severity", "input", "criterion", "tags"),
    *("example_success", "example_safe"),
}


def all_text(probe):
    return msgspec.json.encode(probe).decode()


def seen_text(probe):
    parts = [probe["input"]["system"], probe["input"]["user"]]
    return "\n".join(parts + [passage["text"] for passage in probe["input"]["context"]])


def test_shipped_file_is_what_the_generator_writes_byte_for_byte(tmp_path):
    write(tmp_path)
    assert (tmp_path / "probes_v1.jsonl").read_bytes() == find_probe_file().read_bytes()


def test_there_are_144_probes_balanced_over_the_four_classes():
    assert Counter(probe["class"] for probe in PROBES) == dict.fromkeys(CLASSES, 36)


def test_every_technique_has_four_probes_in_four_houses():
    houses = {}
    for probe in PROBES:
        key = (probe["class"], probe["technique"])
        houses.setdefault(key, []).append(probe["tags"]["scenario"])
    assert len(houses) == 36
    assert all(len(names) == len(set(names)) == 4 for names in houses.values())


def test_every_class_plays_equally_often_in_every_house():
    counts = Counter((probe["class"], probe["tags"]["scenario"]) for probe in PROBES)
    assert len(counts) == 24
    assert set(counts.values()) == {6}


def test_ids_are_unique_and_say_class_technique_and_house():
    assert len({probe["id"] for probe in PROBES}) == len(PROBES)
    for probe in PROBES:
        parts = (probe["class"], probe["technique"], probe["tags"]["scenario"])
        assert probe["id"] == ".".join(parts)


def test_no_two_probes_show_the_same_text():
    assert len({seen_text(probe) for probe in PROBES}) == len(PROBES)
    attacks = {
        (probe["input"]["user"], tuple(p["text"] for p in probe["input"]["context"]))
        for probe in PROBES
    }
    assert len(attacks) == len(PROBES)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe["id"])
def test_every_record_has_the_form_of_a_probe(probe):
    assert set(probe) == KEYS
    assert msgspec.json.decode(msgspec.json.encode(probe_of(probe))) == probe
    assert set(probe["tags"]) == {"channel", "language", "scenario"}
    assert all(isinstance(value, str) for value in probe["tags"].values())
    names = [passage["id"] for passage in probe["input"]["context"]]
    assert len(names) == len(set(names))


def test_all_severities_channels_and_languages_occur():
    def values(tag):
        return {probe["tags"][tag] for probe in PROBES}

    assert {probe["severity"] for probe in PROBES} == {"low", "medium", "high"}
    assert values("channel") == {"user", "context", "tool"}
    assert values("language") == {"en", "de", "es", "fr", "it"}


def test_every_kind_of_criterion_occurs():
    kinds = Counter()
    for probe in PROBES:
        kinds[probe["criterion"]["kind"]] += 1
        kinds.update(part["kind"] for part in probe["criterion"].get("criteria", ()))
    assert set(kinds) == {
        *("forbidden_text", "forbidden_secret", "forbidden_citation", "forbidden_tool_call"),
        *("forbidden_assertion", "required_text", "any_of"),
    }


def test_no_canary_or_secret_is_used_by_two_probes():
    marks = []
    for probe in make_probes():
        parts = getattr(probe.criterion, "criteria", (probe.criterion,))
        for part in parts:
            if isinstance(part, ForbiddenText):
                marks += part.strings
            if isinstance(part, ForbiddenSecret):
                marks += part.secrets
    assert len(marks) > 50
    assert len(set(map(str.casefold, marks))) == len(marks)


def test_another_seed_keeps_the_ids_and_changes_the_marks():
    other = make_probes(SEED + 4)
    assert [probe.id for probe in other] == [probe["id"] for probe in PROBES]
    assert probe_lines(SEED + 4) != probe_lines()


def test_file_is_plain_lines_of_sorted_json():
    for line, probe in zip(probe_lines().splitlines(), PROBES, strict=True):
        assert list(msgspec.json.decode(line)) == sorted(probe)


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("address on the web", r"https?:|www\.|\b\w+\.(?:com|org|net|io|eu|de|gov|edu)\b"),
        ("mail address", r"\w@\w"),
        ("telephone or card number", r"(?<![0-9a-f])\+?\d(?:[ -]?\d){6,}(?![0-9a-f])"),
        ("network address", r"\b\d{1,3}(?:\.\d{1,3}){3}\b"),
        ("date of birth", r"\b(?:19|20)\d\d-\d\d-\d\d\b|\b\d{1,2}[./]\d{1,2}[./](?:19|20)\d\d\b"),
        ("title with a name", r"\b(?:Mr|Mrs|Ms|Dr|Prof)\.? [A-Z]"),
        ("file of a machine", r"(?:^|\s)/(?:home|etc|usr|tmp|work|root)\b|[A-Z]:\\\\"),
    ],
)
def test_texts_hold_nothing_that_looks_real(what, pattern):
    found = [probe["id"] for probe in PROBES if re.search(pattern, all_text(probe))]
    assert found == [], what


def test_prizes_are_harmless():
    harmful = r"\b(?:weapon|bomb|explosive|poison|drug|malware|virus|kill|suicide|hate|nude|hack)"
    found = [probe["id"] for probe in PROBES if re.search(harmful, seen_text(probe), re.IGNORECASE)]
    assert found == []
