from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.evidence.private_text import PrivateTextRules, PrivateTextScan
from gatemark.evidence.secrets_in_text import may_hold_secret, secret_kinds

# Assembled at run time so that no scanner mistakes a test for a leak.
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
RANDOM = "qT7x" + "Zb91LmNc" + "R5vKw0Ys" + "Hd3Gj8Pe"
DIRTY = {
    "see /home/ada/notes.txt": "private_root",
    "C:\\users\\ada\\notes.txt": "private_root",
    "copied to ~/drafts": "private_root",
    "file:///srv/a.wav": "private_root",
    "wrote to ada@example.org": "email",
    "rang +44 20 7946 0958": "phone",
    f"token {TOKEN}": "secret",
    "password=hunter2": "secret",
    "-----BEGIN OPENSSH " + "PRIVATE KEY-----": "secret",
    "https://ada:" + "hunter2@example.org/": "secret",
    RANDOM: "secret",
    "key " + "0f3a9b27c4e85d16" * 3: "secret",
    'upstream said {"choices": [{"text": "hello"}]}': "embedded_json",
    'upstream said {\\"choices\\": 1}': "embedded_json",
    "x" * 200: "over_long",
    "the caller said that she would like to leave today": "excerpt",
    "see /HOME/ada": "private_root",
    "see /h\u043eme/ada": "private_root",
    "see \u2215home\u2215ada": "private_root",
    "%2Fhome%2Fada%2Fnotes.txt": "private_root",
    "%252Fhome%252Fada": "private_root",
    "$HOME/notes": "private_root",
    "ada\uff20example.org": "email",
    "a\u200bda@exam\u200bple\u200b.org": "email",
    "rang \uff14\uff14 20 7946 0958": "phone",
    "gh\u200bp_" + "a1B2c3D4e5F6" * 3: "secret",
    "pass\u200bword=hun\u200bter2": "secret",
}
CLEAN = (
    "duplicate_success",
    "fixture:event_kind",
    "gateway/examples/cron-dry-run.sh",
    "openvino-local",
    "checked on 2026-11-02 12:30:07, 3 of 14 fields",
    "2026-11-02T12:30:07Z",
    "distilbert-base-uncased-finetuned-SST2-english",
    "advisory_gateway_envelope_low_confidence_case_0001",
    "model_digest:sha256:" + "0f3a" * 16,
    "run:01J8ZQ4T9X6M2V7C3B5N1K0PRS",
    "0197a3c2-5b1e-7cc0-8d3f-6f1de20a4b11",
    "/sys/class/accel/accel0/device/npu_busy_time_us",
    "token_budget_exceeded",
    "{not json}",
    "openvino-local/CPU/f32",
    "Qwen2.5-7B-Instruct-int4-ov",
    "openvino-advisory-gateway/examples/cron-advisory-dry-run.sh",
    "checked on 20261102",
    "m\u00fcde_caf\u00e9",
    "100% of 3",
    "\u043e\u0442\u043a\u0430\u0437",
    "api/users/list",
)


@pytest.fixture
def scan() -> PrivateTextScan:
    return PrivateTextScan(PrivateTextRules())


@pytest.mark.parametrize(("text", "kind"), DIRTY.items())
def test_private_content_is_told_by_kind(scan: PrivateTextScan, text: str, kind: str) -> None:
    assert kind in scan.kinds(text)
    assert scan.private([text, "clean"]) == {text}


@pytest.mark.parametrize("text", CLEAN)
def test_codes_names_ids_and_times_are_clean(scan: PrivateTextScan, text: str) -> None:
    assert scan.private([text]) == set()
    assert scan.kinds(text) == ()


def test_a_text_of_two_lines_is_one_text(scan: PrivateTextScan) -> None:
    assert (scan.kinds("{"), scan.kinds('"a": 1}')) == ((), ())
    assert scan.private(["{", '"a": 1}']) == set()
    assert scan.private(["a", '{\n"a": 1}']) == {'{\n"a": 1}'}


_PIECES = (
    "run:",
    "key=",
    "Token ",
    "1717600000123",
    "2026-06-06",
    "T12:30:00Z",
    "4915112345678",
    "0197a3c2-5b1e-7cc0-8d3f-6f1de20a4b11",
    "12345678-1234-4234-8234-123456789012",
    "01J00000000000000000000000",
    "sha256:" + "0f3a" * 16,
    "0f3a" * 8,
    "aZ3kQ9xW7bN2mP5vL8cR",
    "DE89370400440532013000",
    "DE89 3704 0044 0532 0130 00",
    "/home/",
    "c:\\Users\\",
    "~/",
    "%2fhome%2f",
    "a@b.example",
    '{"a": 1}',
    "?sig=abcd1234",
    "Bearer abcdefgh",
    "plain_code",
    "OpenVINO",
    "word word word ",
    *(" ", "-", "_", "/", ".", "(", ")", "+", ":", "=", "1", "12", "x", "\n", "\u0430", "\u200b"),
)


@settings(deadline=None, max_examples=400)
@given(st.lists(st.sampled_from(_PIECES), max_size=9).map("".join), st.booleans())
def test_many_at_once_find_what_one_by_one_finds(text: str, note: bool) -> None:
    def scan() -> PrivateTextScan:
        return PrivateTextScan(PrivateTextRules())

    wanted = {text} if scan().kinds(text, note=note) else set()
    assert scan().private([text], note=note) == wanted
    assert scan().private(["plain_code", text, "run:17"], note=note) == wanted


def test_notes_may_be_longer_than_codes(scan: PrivateTextScan) -> None:
    text = "word " * 40
    assert scan.kinds(text) == ("over_long",)
    assert scan.kinds(text, note=True) == ()
    assert scan.kinds(text) == ("over_long",)


def test_notes_may_have_more_words_than_codes(scan: PrivateTextScan) -> None:
    on_the_line = " ".join(["word"] * 8)
    beyond = f"{on_the_line} word"
    assert scan.kinds(beyond, note=True) == ()
    assert scan.kinds(on_the_line, note=True) == ()
    assert scan.private([on_the_line]) == set()
    assert scan.kinds(on_the_line) == ()
    assert scan.kinds(beyond) == ("excerpt",)
    assert scan.private([beyond]) == {beyond}
    assert scan.private([beyond], note=True) == set()


def test_roots_are_the_users_to_name() -> None:
    own = PrivateTextScan(PrivateTextRules(private_roots=("/vault/",)))
    assert own.kinds("/vault/a") == ("private_root",)
    assert own.kinds("/home/ada") == ()
    with pytest.raises(InvalidValueError, match="blank"):
        PrivateTextRules(private_roots=("",))
    with pytest.raises(InvalidValueError, match="code_chars_max"):
        PrivateTextRules(code_chars_max=400)
    with pytest.raises(InvalidValueError, match="code_words_max"):
        PrivateTextRules(code_words_max=0)


def detectors() -> list[Any]:
    plugins = importlib.import_module("detect_secrets.plugins")
    base = importlib.import_module("detect_secrets.plugins.base").RegexBasedDetector
    return [
        pytest.param(value, id=value.__name__)
        for found in pkgutil.iter_modules(plugins.__path__)
        for value in vars(importlib.import_module(f"{plugins.__name__}.{found.name}")).values()
        if isinstance(value, type)
        and issubclass(value, base)
        and value is not base
        and value.__name__ != "IPPublicDetector"
    ]


@pytest.mark.parametrize("detector", detectors())
def test_the_screen_never_clears_what_a_detector_knows(detector: Any) -> None:
    patterns = [re.compile(pattern.pattern, re.ASCII) for pattern in detector.denylist]

    @settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
    @given(st.one_of([st.from_regex(pattern) for pattern in patterns]))
    def never_cleared(text: str) -> None:
        if any(pattern.search(text) for pattern in detector.denylist):
            assert "secret" in PrivateTextScan(PrivateTextRules()).kinds(text)

    never_cleared()


def test_usual_texts_do_not_need_the_detectors() -> None:
    usual = [text for text in CLEAN if "model_digest" not in text and text.isascii()]
    assert [text for text in usual if may_hold_secret(text)] == []


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="aB0-/{}\"': @.x", max_size=40))
def test_clearing_and_the_exact_rules_agree(text: str) -> None:
    scan = PrivateTextScan(PrivateTextRules())
    found = scan.kinds(text)
    assert ("secret" in found) == bool(secret_kinds(text))
    if not found:
        assert scan.kinds(text) == ()


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("run:12345678901", ()),
        ("1717600000123", ()),
        ("count=1000000000", ()),
        ("phone:4915112345678", ("phone",)),
        ("4915112345678", ("phone",)),
        ("DE89370400440532013000", ("iban",)),
        ("DE89370400440532013001", ()),
        ("BE68539007547034", ("iban",)),
        ("AD1200012030200359100100", ("iban",)),
        # Ids that have the length and the checksum of an account number by chance.
        ("artifact:7d281315-bf1a-4417-be88-353d7399348c", ()),
        ("review:fcf1abcf-ad07-45aa-aa9a-a55254fa918b", ()),
        ("trace:be88353d7399348c", ()),
        ("https://example.org/hook?sig=abcd1234", ("secret",)),
        ("Authorization: Bearer abcdefgh", ("secret",)),
    ],
)
def test_numbers_and_credentials_are_told_apart(text: str, kinds: tuple[str, ...]) -> None:
    assert PrivateTextScan(PrivateTextRules()).kinds(text) == kinds


@settings(deadline=None)
@given(st.lists(st.uuids().map(str), min_size=1, max_size=30))
def test_ids_are_never_private(ids: list[str]) -> None:
    assert PrivateTextScan(PrivateTextRules()).private(ids) == set()


@settings(deadline=None)
@given(
    st.lists(
        st.from_regex(r"([Bb][Ee]|[Dd][Ee]|[Aa][Dd]|[Ff][Rr])[0-9]{2}[ _-]?[0-9a-fA-F -]{8,30}"),
        max_size=8,
    )
)
def test_many_texts_at_once_are_judged_as_each_alone(texts: list[str]) -> None:
    alone = PrivateTextScan(PrivateTextRules())
    assert PrivateTextScan(PrivateTextRules()).private(texts) == {
        text for text in texts if alone.kinds(text)
    }


_HALVES: Final = (
    *(
        "/home",
        "/x",
        "a@",
        "b.example",
        "49151",
        "12345678",
        "+49 151",
        "23 45 67 89",
        "sk",
        "ghp_",
    ),
    *("Bearer", "abcdefgh", "DE89", "3704 0044 0532 0130 00", "{", '"a": 1}', "%2f", "home%2f"),
    *(
        "one two three four five",
        "six seven eight nine ten",
        "word " * 30,
        "key=",
        "hunter2hunter2",
    ),
)
"""Texts that are clean, most of them; two of them together would not be."""


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.sampled_from((*_HALVES, *_PIECES)), max_size=200),
    st.integers(0, 200),
    st.booleans(),
)
def test_a_batch_is_judged_as_each_of_its_texts_whether_they_come_again_or_not(
    texts: list[str], fresh: int, note: bool
) -> None:
    batch = [*texts, *(f"rule_{number:08x}" for number in range(fresh))]
    alone = {text for text in texts if PrivateTextScan(PrivateTextRules()).kinds(text, note=note)}
    together = PrivateTextScan(PrivateTextRules())
    assert together.private(batch, note=note) == alone
    assert together.private(batch, note=note) == alone


_SIGNS: Final = (
    *("key", "Pass", "pwd", "token", "Secret", "contrasena", "basic ", "Bearer:", "authorization"),
    *(
        ":",
        "=",
        "'",
        "(",
        "`",
        " ",
        ";",
        "?",
        "&",
        "sig=",
        "session=",
        "%2f",
        "%41",
        "@",
        "{",
        "://",
    ),
    *("eyJ", "xox", "-us1", "glpat-", "SG.", "hooks.slack", "PuTTY", "authToken", "12345678"),
    *(
        "/home/",
        "~/",
        "C:\\Users\\",
        "c:/users/",
        "abcd1234",
        "word",
        "Qwen2.5-7B",
        "x" * 31,
        "x" * 40,
    ),
    *("A" * 27, RANDOM, "deadbeef" * 5, "sha256:" + "0f3a" * 16, "01J8ZQ4T9X6M2V7C3B5N1K0PRS"),
    *("DE89370400440532013000", "+49 151 23456789", "\u00fc", "\u200b", "\n", "-", "/", "."),
)
"""What the rules look for, in parts, and what surrounds it."""


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.lists(st.sampled_from(_SIGNS), min_size=1, max_size=5).map("".join), max_size=30),
    st.booleans(),
)
def test_the_screen_clears_only_what_the_rules_clear(texts: list[str], note: bool) -> None:
    scan = PrivateTextScan(PrivateTextRules())
    assert scan.private(texts, note=note) == {text for text in texts if scan.kinds(text, note=note)}


def test_a_clean_time_does_not_make_phone_numbers_of_that_form_clean() -> None:
    scan = PrivateTextScan(PrivateTextRules())
    assert scan.kinds("1717600000123") == ()
    assert scan.private(["4915112345678"]) == {"4915112345678"}
