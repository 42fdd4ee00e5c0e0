from __future__ import annotations

import copy

import pytest

from gatemark.core.errors import BadInputError, UsageError
from gatemark.plugins.runlog.replay.config import load_variant, load_variants
from gatemark.plugins.runlog.replay.token_gate import GateSettings

RAW = {
    "variant_id": "V0",
    "trigger_policy": "full_exaid",
    "components": {
        "token_gate": {"enabled": True, "min_words": 60, "max_words": 100, "silence_timer": 1.5},
        "buffer_agent": {"enabled": True, "novelty_check": True},
    },
    "summarizer": {"history_k": 3},
    "metrics_role": "treatment",
}


def test_shipped_variants_have_the_published_gate_hashes() -> None:
    found = {one.variant_id: one.tokengate_config_hash[7:15] for one in load_variants(None)}
    assert found == {
        "V0": "67d6303e",
        "V1": "5acf3ff7",
        "V2": "67d6303e",
        "V3": "5acf3ff7",
        "V4": "67d6303e",
    }
    assert {one.config.summarizer.history_k for one in load_variants(None)} == {3}
    assert load_variants(None, ("V3",))[0].config.fixed_trigger.chunk_size_ctu == 125


def test_seconds_become_milliseconds() -> None:
    gate = load_variant(RAW, "f").config.components.token_gate
    assert gate.settings() == GateSettings(60, 100, 1500, 4000)


def change(path: str, value) -> dict:
    raw = copy.deepcopy(RAW)
    *parents, last = path.split(".")
    place = raw
    for key in parents:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return raw


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("summarizer.history_k", ..., "missing required field `history_k`"),
        ("summarizer.history_k", 0, ">= 1"),
        ("summarizer", ..., "missing required field `summarizer`"),
        ("variant_id", "V 7", "variant_id must be a letter and then letters"),
        ("trigger_policy", "turn_end", "trigger_policy of V0 must be 'full_exaid'"),
        (
            "components.token_gate.enabled",
            False,
            "enabled of V0 must be true, got false",
        ),
        ("components.buffer_agent.enabled", False, "buffer_agent.enabled of V0 must be true"),
        ("components.buffer_agent.novelty_check", False, "novelty_check of V0 must be true"),
        ("components.token_gate.boundary_cues", ".", "unknown field `boundary_cues`"),
        ("components.token_gate.max_words", 10, "max_words must be >= min_words=60, got 10"),
        ("components.token_gate.silence_timer", 0, "> 0"),
        ("compat", "other", "compat"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(path, value, complaint) -> None:
    with pytest.raises(BadInputError) as caught:
        load_variant(change(path, value), "configs/V0.yaml")
    assert str(caught.value).startswith("configs/V0.yaml: ")
    assert complaint in str(caught.value)


def test_a_configuration_must_be_a_mapping() -> None:
    with pytest.raises(BadInputError, match="expected a mapping"):
        load_variant(["V0"], "f")


def test_unknown_and_absent_variants_are_told(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"unknown variant 'V9' \(known: V0, V1, V2, V3, V4\)"):
        load_variants(None, ("V9",))
    with pytest.raises(BadInputError, match="holds no variant configurations"):
        load_variants(str(tmp_path))
    (tmp_path / "V1.json").write_text('{"variant_id": "V0"}')
    with pytest.raises(BadInputError, match="has no configuration of V2"):
        load_variants(str(tmp_path), ("V2",))


def test_a_file_must_hold_the_variant_of_its_name(tmp_path) -> None:
    (tmp_path / "V1.yaml").write_text(
        "{variant_id: V1, trigger_policy: turn_end, summarizer: {history_k: 2}, components: "
        "{token_gate: {enabled: false}, buffer_agent: {enabled: false}}}"
    )
    assert load_variants(str(tmp_path))[0].config.summarizer.history_k == 2
    (tmp_path / "V1.yaml").rename(tmp_path / "V3.yaml")
    with pytest.raises(BadInputError, match="variant_id must be V3, got V1"):
        load_variants(str(tmp_path))
