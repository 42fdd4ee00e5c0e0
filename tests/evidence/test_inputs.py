from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemark.core.canonical import digest_bytes
from gatemark.core.measurement import EvidenceFile
from gatemark.evidence.blocks import Block
from gatemark.evidence.inputs import (
    LATIN_LOOKS,
    LinesDigest,
    SeenInputs,
    digest_content,
    digest_inputs,
    find_copied_files,
    group_inputs,
    join_clusters,
    normalize_id,
    normalize_ids,
    visible_form,
)

ALPHABETS = ("CYRILLIC", "GREEK", "ARMENIAN")


@pytest.mark.parametrize(
    "other",
    [
        "Q-17a",
        "q-17a ",
        " q-17a",
        "q\u200b-17a",
        "q-17a\ufeff",
        "q-17\u00ada",
        "q-1\u20607a",
        "q-17a\ufe0f",
        "q-17a\U000e0041",
        "q-17a\u034f",
        "\u2800q-17a",
        "q-17a\x00",
        "\uff51-17a",
        "q\u201117a",
        "q\u221217a",
        "q-17\u0430",
        "q-17\u0410",
        "q-17\u03b1",
        "\U0001d42a-17a",
    ],
)
def test_an_id_that_looks_the_same_is_the_same_input(other: str) -> None:
    assert normalize_id(other) == normalize_id("q-17a") == "q-17a"
    assert list(normalize_ids(["q-17a", other])) == ["q-17a", "q-17a"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("q1", "q10"),
        ("q1", "ql"),
        ("q0", "qO"),
        ("resume", "r\u00e9sum\u00e9"),
        ("los", "\u0142os"),
        ("kir", "k\u0131r"),
        ("\u0431\u0443\u0440", "\u0431\u04af\u0440"),
        ("\u0431\u043e\u043b\u0432", "\u0431\u043e\u043b\u044c"),
        ("\u03bf\u03c3", "\u03bf\u03bf"),
        ("\u6771\u4eac", "\u4eac\u6771"),
        ("a b", "ab"),
        ("a-b", "a_b"),
    ],
)
def test_ids_that_readers_tell_apart_are_two_inputs(one: str, other: str) -> None:
    assert normalize_id(one) != normalize_id(other)


def test_a_word_in_another_alphabet_is_found_whole() -> None:
    assert normalize_id("\u0455\u0441\u043e\u0440\u0435") == "scope"
    assert visible_form("\u0421\u0410\u0422") == "CAT"


def test_no_two_small_letters_of_one_alphabet_are_taken_for_each_other() -> None:
    for alphabet in ALPHABETS:
        own = [
            looks
            for code, looks in LATIN_LOOKS.items()
            if unicodedata.name(chr(code)).startswith(f"{alphabet} SMALL")
        ]
        assert len(own) == len(set(own)) > 3, alphabet


def test_every_look_alike_letter_has_the_case_of_the_letter_it_looks_like() -> None:
    for code in LATIN_LOOKS:
        looks = chr(code).translate(LATIN_LOOKS)
        assert looks.isascii()
        if looks.isalpha():
            assert chr(code).isupper() == looks.isupper()
            assert not unicodedata.name(chr(code)).startswith("LATIN")


@given(st.text())
def test_the_form_of_an_id_is_its_own_form(name: str) -> None:
    assert normalize_id(normalize_id(name)) == normalize_id(name)


@given(st.lists(st.text(st.characters(max_codepoint=0x250)), max_size=8))
def test_many_ids_have_the_forms_that_each_has_alone(names: list[str]) -> None:
    assert list(normalize_ids(names)) == [normalize_id(name) for name in names]


def test_usual_ids_are_not_even_copied() -> None:
    names = [f"q-{n}" for n in range(100)]
    assert normalize_ids(names) is names


def test_an_id_that_shows_nothing_stays_itself() -> None:
    assert normalize_id("\u200b") == "\u200b" != normalize_id("\u200c")


def test_contents_are_compared_by_what_is_asked() -> None:
    one = digest_content({"q": "2+2?", "n": [1]})
    assert (
        one
        == digest_content({"n": [1], "q": " 2+2?\n"})
        == digest_content({"n": [1], "q": "2\u200b+2?"})
    )
    assert one != digest_content({"n": [2], "q": "2+2?"})
    assert one != digest_content({"q": "2+3?", "n": [1]})
    assert one != digest_content("2+2?")
    assert digest_content(None) is None


QUESTION = "What is the price of 3 cables?"


@pytest.mark.parametrize(
    "other",
    [
        QUESTION.upper(),
        f" {QUESTION}\n",
        QUESTION.replace(" ", "  "),
        QUESTION.replace(" ", "\t"),
        QUESTION.replace(" ", "\r\n"),
        QUESTION.replace(" ", "\u00a0"),
        QUESTION.replace(" ", "\u2009\u200a"),
        QUESTION.replace(" ", "\u2028"),
        QUESTION.replace("a", "\uff41"),
        QUESTION.replace("a", "\u0430"),
        QUESTION.replace("price", "pri\u200bce"),
        QUESTION.replace("price", "pri\u00adce"),
        QUESTION.replace("price", "pri\u034fce"),
        f"{QUESTION}.",
        [QUESTION],
        {"q": QUESTION},
        {"any name": [QUESTION], "other": None},
        {"role": "user", "content": QUESTION},
        [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}],
    ],
)
def test_a_text_that_looks_the_same_is_the_same_input_whatever_holds_it(other: object) -> None:
    assert digest_content(other) == digest_content(QUESTION)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        (["first", "second"], ["second", "first"]),
        ({"role": "system", "content": "x"}, {"role": "user", "content": "x"}),
        ("price of 3", "price of 4"),
        (-1, 1),
        ("resume", "r\u00e9sum\u00e9"),
    ],
)
def test_contents_that_ask_something_else_are_two_inputs(one: object, other: object) -> None:
    assert digest_content(one) != digest_content(other)


def test_a_whole_number_is_the_same_with_a_decimal_point() -> None:
    assert len({digest_content(one) for one in (2, 2.0, [2], {"n": 2.0})}) == 1
    assert digest_content(2) != digest_content("2")


def test_a_field_beside_an_input_counts_only_where_all_inputs_of_these_words_have_it() -> None:
    def count(*inputs: tuple[object, dict[str, object]]) -> int:
        return len(set(digest_inputs(inputs)))

    assert count(("Fix it.", {"target": "a"}), ("Fix it.", {"target": "b"})) == 2
    assert count(("Fix it.", {"target": "a"}), ("fix it", {"target": " A"})) == 1
    assert count(("Fix it.", {"target": "a"}), ("Fix it.", {"target": None})) == 1
    assert count(("Fix it.", {"target": "a"}), ("Fix it.", {"target": "a", "note": 1})) == 1
    assert count(("Fix it.", {"doc": 1}), ("Fix it.", {"doc": 2}), ("Run it.", {})) == 3
    assert digest_inputs([(None, {"target": "a"})]) == [None]


def test_clusters_that_share_an_input_or_look_the_same_are_one_cluster() -> None:
    groups = [{"talk-1"}, {"Talk-1", "own-7"}, {"own-7\u200b"}, {"talk-2"}]
    assert join_clusters(groups) == {
        "talk-1": "Talk-1",
        "Talk-1": "Talk-1",
        "own-7": "Talk-1",
        "own-7\u200b": "Talk-1",
        "talk-2": "talk-2",
    }


def test_the_first_of_two_records_is_named_with_its_place() -> None:
    seen = SeenInputs()
    assert seen.see("q1", "at a:1", 7) is None
    assert seen.see("q2", "at a:2") is None
    found = [
        seen.see("q1", "at a:3"),
        seen.see("\u0051\u200b2", "at a:4"),
        seen.see("q3", "at a:5", 7),
    ]
    assert [same.describe() for same in found if same is not None] == [
        "id 'q1' was seen before at a:1",
        "id 'Q\\u200b2' looks like id 'q2' at a:2; write one input in one way, or name two inputs "
        "more differently",
        "id 'q3' has the same input as id 'q1' at a:1",
    ]


def test_inputs_are_grouped_by_looks_and_by_content_together() -> None:
    found = group_inputs([("a", 1), ("b", 2), ("A", 2), ("c", 3), ("d", None), ("e", None)])
    assert found == {"a": "a", "b": "a", "A": "a", "c": "c", "d": "d", "e": "e"}


@given(st.lists(st.tuples(st.sampled_from("abcAB"), st.sampled_from([None, 1, 2, 3])), max_size=12))
def test_groups_are_the_connected_parts(inputs: list[tuple[str, int | None]]) -> None:
    found = group_inputs(inputs)
    parts = [({name.lower()}, {content} - {None}) for name, content in inputs]
    merged = True
    while merged:
        merged = False
        for one in parts:
            for other in parts:
                if one is not other and (one[0] & other[0] or one[1] & other[1]):
                    one[0].update(other[0])
                    one[1].update(other[1])
                    parts.remove(other)
                    merged = True
                    break
            if merged:
                break
    assert len(set(found.values())) == len(parts)
    for name, first in found.items():
        (home,) = [part for part in parts if name.lower() in part[0]]
        assert first.lower() in home[0]


def test_files_of_the_same_bytes_are_copies() -> None:
    files = [
        EvidenceFile(name, digest_bytes(data), 1)
        for name, data in (("a", b"x"), ("b", b"y"), ("c", b"x"))
    ]
    assert [(one.name, other.name) for one, other in find_copied_files(files)] == [("a", "c")]


def test_files_of_the_same_lines_are_copies_however_they_are_packed() -> None:
    lines = b'{"id": "q1", "label": "A"}\n{"id": "q2", "label": "B"}\n'
    written = [
        [lines],
        [lines[:27], lines[27:]],
        [lines.replace(b"\n", b"  \r\n")],
        [b"\n" + lines + b" \n"],
        [lines[:27]],
        [lines + lines[:27]],
        [lines[27:] + lines[:27]],
    ]
    files = [EvidenceFile(str(n), digest_bytes(bytes([n])), 1) for n in range(len(written))]
    contents = []
    for blocks in written:
        digest = LinesDigest()
        assert [block.data for block in digest.read(map(Block, blocks))] == blocks
        contents.append(digest.value)
    found = find_copied_files(files, contents)
    assert {one.name + other.name for one, other in found} == {"01", "02", "03", "12", "13", "23"}


@pytest.mark.parametrize("sign", ["\x01", "\x7f", "\u180b", "\u180f", "\uffa0", "\u200b", "\ufe0f"])
def test_a_sign_that_nobody_sees_makes_no_other_input(sign: str) -> None:
    assert normalize_id(f"q{sign}1") == normalize_id("q1")
    plain = {"question": "What is new?"}
    for other in ({"question": f"What is{sign} new?"}, {f"quest{sign}ion": "What is new?"}):
        assert digest_content(other) == digest_content(plain)
