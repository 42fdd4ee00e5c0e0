from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError
from gatemark.packs.pack_file import read_pack_file

GOOD = """\
# yaml-language-server: $schema=pack.schema.json
gatemark: 1
name: mail
version: 3
asset: {kind: prompt, name: mail}
score_min: 0.85
regression_max: 0.02
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 0.9, min: 0.9, dataset: golden.jsonl, scorer: exact}
  - {id: calib, kind: calibration, weight: 0.1, from: golden}
targets:
  candidate: {python: "app:answer"}
  baseline: none
"""


def write(folder: Path, text: str) -> str:
    path = folder / "pack.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_good_pack_is_read_and_has_a_digest_of_every_key(tmp_path: Path) -> None:
    pack = read_pack_file(write(tmp_path, GOOD))
    assert pack.suite("calib").source == "golden"
    changed = read_pack_file(write(tmp_path, GOOD.replace("0.02", "0.03")))
    assert digest(pack) != digest(changed)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("weight: 0.9,", "weight: 0.89,", "weights must sum to 1, got 0.99"),
        ("id: calib", "id: golden", "suite id 'golden' comes twice"),
        ("[golden]", "[gold]", "required suite 'gold' is not in the pack"),
        ("from: golden", "from: calib", "looks at 'calib', which is not another suite"),
        ("from: golden", "min: 0.5", "needs one of: a dataset, another suite"),
        ("score_min", "score_mni", "did you mean 'score_min'?"),
        ("dataset:", "datset:", "unknown key 'datset'; did you mean 'dataset'?"),
        ("score_min: 0.85", "score_min: 1.5", "score_min"),
        (
            "version: 3",
            "version: 3\nversion: 4",
            "pack.yaml:5: key 'version' appears more than once",
        ),
        ("gatemark: 1", "gatemark: 2", "$.gatemark"),
        ("kind: prompt", "kind: poem", "$.asset.kind"),
        ("name: mail\nv", "name: ../mail\nv", "$.name"),
        ("baseline: none", "baseline: nobody", "baseline"),
        ("suites:", "suites: [", "pack.yaml:"),
        ("version: 3", "version: !!python/object:os.system 3", "pack.yaml:4"),
        ("version: 3", "7: 3", "key 7 is not a text"),
    ],
)
def test_a_wrong_pack_is_refused_with_the_place(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    assert old in GOOD
    with pytest.raises(BadInputError) as caught:
        read_pack_file(write(tmp_path, GOOD.replace(old, new, 1)))
    assert complaint in str(caught.value)
    assert "pack.yaml" in str(caught.value)


def test_an_empty_pack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        read_pack_file(write(tmp_path, ""))


@given(st.text(max_size=200))
@settings(deadline=None, max_examples=200)
def test_arbitrary_text_is_refused_without_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("pack")
    with pytest.raises(BadInputError):
        read_pack_file(write(folder, text.encode("utf-8", "replace").decode()))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(st.sampled_from(list(yaml.safe_load(GOOD))), VALUES)
@settings(deadline=None, max_examples=200)
def test_any_value_under_any_key_is_taken_or_refused_politely(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: object
) -> None:
    folder = tmp_path_factory.mktemp("pack")
    document = {**yaml.safe_load(GOOD), key: value}
    refused = ""
    try:
        read_pack_file(write(folder, yaml.safe_dump(document)))
    except BadInputError as error:
        refused = str(error)
    assert not refused or "pack.yaml" in refused


def test_a_key_in_the_wrong_place_is_no_misspelling_of_itself(tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as caught:
        read_pack_file(write(tmp_path, GOOD.replace("kind: prompt", "kind: prompt, dataset: x", 1)))
    assert "unknown key 'dataset' (allowed: kind, name)" in str(caught.value)
    assert "did you mean 'dataset'" not in str(caught.value)
