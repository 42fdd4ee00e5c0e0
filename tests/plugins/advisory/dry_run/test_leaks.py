"""Nothing of the payload and no secret reaches the disk, however the service spells it."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from gatemark.plugins.advisory.dry_run.leaks import Leak, find_leaks
from gatemark.plugins.advisory.dry_run.reply import Advice, read_reply
from gatemark.plugins.advisory.fixtures.files import open_fixtures
from gatemark.plugins.advisory.taxonomy import DEFAULT_TAXONOMY

MESSAGE = "greenhouse seven lost heating overnight and tomato seedlings froze before sunrise"
PAYLOAD = {"workflow": "heating watch", "message": MESSAGE, "repeat_count": 4}
GOOD: dict[str, Any] = {"label": "escalate", "severity": "high", "confidence": 0.9}
HEX = MESSAGE.encode().hex()
CODES = "_".join(str(ord(sign)) for sign in MESSAGE[:20])


def pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def told(**changes: Any) -> Advice:
    found = read_reply({**GOOD, **changes}, PAYLOAD, DEFAULT_TAXONOMY)
    assert isinstance(found, Advice)
    return found


@pytest.mark.parametrize(
    "reasons",
    [
        MESSAGE.split()[:8],
        [f"w{place}_{word}" for place, word in enumerate(MESSAGE.split()[:8])],
        [f"because_{word}_was_seen" for word in MESSAGE.split()[:8]],
        MESSAGE.split()[:8][::-1],
        [word[::-1] for word in MESSAGE.split()[:8]][::-1],
        [f"x{piece}" for piece in pieces(HEX, 60)],
        [f"b{piece}" for piece in pieces(HEX[:96], 12)],
        [f"c_{CODES}"],
        [f"c{ord(sign)}" for sign in MESSAGE[:16]] + ["c110_c32_c108_c111_c115_c116_c32_c104"],
        [*MESSAGE.replace(" ", "")[:16], MESSAGE.replace(" ", "")[16:30]],
        [MESSAGE.replace(" ", "_")[:40]],
        [MESSAGE.replace(" ", "_")[:40][::-1]],
    ],
)
def test_a_payload_split_over_reasons_is_dropped_and_named(reasons: list[str]) -> None:
    found = told(reasons=reasons)
    assert found.conduct.echoed
    assert found.reasons == ()
    assert "reasons" in found.dropped
    assert Leak("payload", "reasons") in found.conduct.leaks
    assert "greenhouse" not in msgspec.json.encode(found).decode()


def test_a_payload_spread_over_several_fields_is_dropped_everywhere() -> None:
    found = told(
        reasons=["greenhouse_seven"],
        evidence_refs=["a:lost.heating"],
        model="overnight-tomato",
        precision="seedlings",
    )
    assert found.conduct.echoed
    assert (found.reasons, found.evidence_refs, found.model, found.precision) == (
        (),
        (),
        None,
        None,
    )


@pytest.mark.parametrize("name", ["model", "device", "precision", "model_digest"])
@pytest.mark.parametrize(
    "spelled",
    [
        MESSAGE.replace(" ", "-")[:60],
        base64.urlsafe_b64encode(MESSAGE[:60].encode()).decode().rstrip("="),
        HEX[:90],
    ],
)
def test_names_do_not_carry_the_payload(name: str, spelled: str) -> None:
    found = told(**{name: spelled})
    assert getattr(found, name) is None
    assert Leak("payload", name) in found.conduct.leaks


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("model", "AKIA" + "IOSFODNN7EXAMPLE", "secret"),
        ("model", "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345", "secret"),
        ("notes", ["write to gardener@example.org"], "email"),
        ("debug", "https://example.org/hook?access_token=abcd1234", "secret"),
        ("debug", {"headers": {"x": "Authorization: Bearer abcdefghijkl"}}, "secret"),
        ("debug", "/home/ada/notes.txt", "private_root"),
        ("reasons", ["de89370400440532013000"], "iban"),
        ("fallback", {"kind": "cpu", "reason": "de89370400440532013000"}, "iban"),
    ],
)
def test_secrets_are_dropped_and_named_by_their_field(field: str, value: Any, kind: str) -> None:
    found = told(**{field: value})
    leak = Leak(kind, field if field != "debug" else "other")
    assert leak in found.conduct.leaks
    written = msgspec.json.encode(found).decode()
    assert "AKIA" not in written
    assert "ghp_" not in written
    assert "3704" not in written


def test_a_secret_split_over_reasons_is_found() -> None:
    halves = ["ghp" + "_0123456789abcdefghi", "jabcdefghij012345aaaa"]
    assert told(reasons=halves).conduct.leaks == (Leak("secret", "reasons"),)
    assert told(reasons=halves).reasons == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"reasons": ["heating_lost", "model_confident"], "model": "Qwen2.5-7B-Instruct-int4-ov"},
        {"evidence_refs": ["payload:message", "payload:repeat_count", "payload:workflow"]},
        {"model_digest": "sha256:" + "5e" * 32},
        {"reasons": ["run_12345678901"], "evidence_refs": ["run:12345678901", "count:1000000000"]},
        {"device": "NPU", "precision": "f32"},
    ],
)
def test_codes_ids_and_counts_are_kept(changes: dict[str, Any]) -> None:
    found = told(**changes)
    assert not found.conduct.leaks
    assert found.dropped == ()


def test_a_bare_digest_gets_the_name_of_its_method() -> None:
    assert told(model_digest="5E" * 32).model_digest == "sha256:" + "5e" * 32


def test_what_the_bundled_gateway_says_leaks_nothing() -> None:
    for fixture in open_fixtures("builtin").fixtures:
        expected = fixture.expected.label if fixture.expected else "log"
        fields = sorted(fixture.payload) if isinstance(fixture.payload, dict) else []
        kept = {
            "reasons": (f"model_says_{expected}", "low_confidence", "settled_by_rule"),
            "evidence_refs": tuple(f"payload:{name}" for name in fields),
        }
        assert find_leaks({"label": expected, **kept}, fixture.payload, kept) == []
