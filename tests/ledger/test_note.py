from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.ledger.proof import proof_text, read_proof
from gatemark.ledger.signing.note import (
    Checkpoint,
    SigningKey,
    read_checkpoint,
    read_note,
    read_signer,
    read_verifier,
    sign_note,
)

# A key and a note that other implementations of signed notes are tested with.
PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
SIGNATURE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6"
    "KE6RyyBwJnAM=\n"
)
NOTE = f"{TEXT}\n{SIGNATURE}"
OTHER = SigningKey("other.example/key", bytes(range(32)))


def test_keys_and_signatures_are_those_of_other_implementations() -> None:
    key = read_signer(PRIVATE)
    assert str(key.verifier) == PUBLIC
    assert read_verifier(PUBLIC) == key.verifier
    assert sign_note(TEXT, key) == NOTE
    assert key.private_text() == PRIVATE
    assert read_note(NOTE).signed_by([key.verifier]) == key.verifier
    go = read_verifier("sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8")
    assert go.id.hex() == "033de0ae"


def test_signatures_of_unknown_keys_are_ignored() -> None:
    key = read_signer(PRIVATE)
    note = read_note(sign_note(TEXT, OTHER, key))
    assert note.signed_by([key.verifier]) == key.verifier
    assert note.signed_by([]) is None
    namesake = SigningKey("PeterNeumann", bytes(32))
    assert note.signed_by([namesake.verifier]) is None


def test_a_false_signature_of_a_known_key_is_refused() -> None:
    forged = NOTE.replace("answer", "problem")
    with pytest.raises(IntegrityError, match="PeterNeumann\\+c74f20a3 is invalid"):
        read_note(forged).signed_by([read_verifier(PUBLIC)])


def test_a_text_may_have_empty_lines_and_the_last_one_ends_it() -> None:
    text = "one\n\ntwo\n"
    note = read_note(sign_note(text, OTHER))
    assert note.text == text
    assert note.signed_by([OTHER.verifier]) == OTHER.verifier


@pytest.mark.parametrize(
    "note",
    [
        "",
        "text\n",
        "text\n\n",
        TEXT + SIGNATURE,
        NOTE.removesuffix("\n"),
        NOTE.replace("— ", "- "),
        f"{TEXT}\n— name not-base64!\n",
        f"{TEXT}\n— name QUJD\n",
        f"{TEXT}\n— na+me QUJDREVG\n",
        NOTE.replace("think", "think\t"),
        NOTE.replace("think", "think\r"),
        "\n\n" + SIGNATURE,
        "x" * 70_000 + f"\n\n{SIGNATURE}",
        f"{TEXT}\n" + SIGNATURE * 65,
    ],
)
def test_what_is_no_note_is_refused(note: str) -> None:
    with pytest.raises(BadInputError):
        read_note(note)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name+c74f20a3",
        PUBLIC.replace("c74f20a3", "c74f20a4"),
        PUBLIC.replace("+AR", "+AB"),
        PUBLIC[:-8],
        PUBLIC.replace("PeterNeumann", "Peter Neumann"),
        "+" + PUBLIC,
        PRIVATE,
    ],
)
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        read_verifier(text)


@pytest.mark.parametrize(
    "text", ["", PUBLIC, PRIVATE.replace("c74f20a3", "00000000"), PRIVATE[:-4]]
)
def test_what_is_no_private_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_signer(text, "my.key")
    assert "AYEKFALV" not in str(caught.value)
    assert str(caught.value).startswith("my.key: not a")


def test_a_private_key_shows_itself_to_nobody() -> None:
    key = read_signer(PRIVATE)
    secret = PRIVATE.split("+", 4)[4]
    seed = base64.b64decode(secret)[1:]
    for shown in (repr(key), str(key), f"{key}", repr([key])):
        assert secret not in shown
        assert seed.hex() not in shown


@settings(deadline=None, max_examples=80)
@given(st.text(max_size=200))
def test_reading_never_fails_in_another_way(text: str) -> None:
    for read in (read_note, read_verifier, read_signer, read_checkpoint, read_proof):
        try:
            read(text)
        except BadInputError:
            continue


def test_a_checkpoint_is_three_lines_under_a_signature() -> None:
    made = Checkpoint("gatemark/ledger/x", 20852163, bytes(range(32)))
    text = made.sign(OTHER)
    assert text.split("\n")[:3] == [
        "gatemark/ledger/x",
        "20852163",
        base64.b64encode(bytes(range(32))).decode(),
    ]
    read, note = read_checkpoint(text)
    assert read == made
    assert note.signed_by([OTHER.verifier]) == OTHER.verifier
    extended, _ = read_checkpoint(sign_note(made.text + "an extension line\n", OTHER))
    assert extended == made


@pytest.mark.parametrize(
    "body",
    [
        "origin\n",
        "origin\n7\n",
        "origin\n07\nAAAA\n",
        "origin\n-1\nAAAA\n",
        "origin\n7\nAAAA\n",
        "origin\n7\nnot base64\n",
        "\n7\n" + "A" * 43 + "=\n",
        "origin\n7\n" + "A" * 43 + "=\n\nmore\n",
        "origin\n99999999999999999\n" + "A" * 43 + "=\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(body: str) -> None:
    with pytest.raises(BadInputError):
        read_checkpoint(sign_note(body, OTHER))


def test_a_proof_comes_back_from_its_text() -> None:
    note = Checkpoint("gatemark/ledger/x", 9, bytes(32)).sign(OTHER)
    path = [bytes([n]) * 32 for n in range(3)]
    proof = read_proof(proof_text(7, path, note))
    assert (proof.leaf, list(proof.path), proof.checkpoint.size) == (7, path, 9)
    text = proof_text(7, path, note)
    for bad in (
        text.replace("tlog-proof@v1", "tlog-proof@v2"),
        text.replace("index 7", "index 07"),
        text.replace("index 7\n", ""),
        text.replace("\nAQEB", "\n!QEB"),
        text.replace("\nAQEB", "\nAQ"),
    ):
        with pytest.raises(BadInputError):
            read_proof(bad)
