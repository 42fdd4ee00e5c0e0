from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError
from gatemark.core.registry import Registry
from gatemark.scorers.scorer import Scorable, Scorer
from gatemark.testing.scorers import check_scorer

SCORERS: Registry[Scorer] = Registry(
    kind="scorer",
    places=("gatemark.scorers.*",),
    attribute="SCORER",
    plugin_type=Scorer,
    name_of=lambda scorer: scorer.name,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=6,
)
# Made once: Hypothesis looks through a strategy that is made for one example as long as it draws.
samples = st.dictionaries(
    st.sampled_from(["error", "judge", "tool_calls", "citations"]), json_values
)


def test_every_module_of_the_room_is_a_scorer() -> None:
    assert SCORERS.names() == (
        "assertions",
        "canary",
        "char_ngrams",
        "choice",
        "combined",
        "contains",
        "edit_distance",
        "embedding",
        "exact",
        "is_json",
        "json_equal",
        "json_schema",
        "judge",
        "normalised",
        "numeric",
        "probe",
        "python",
        "recorded",
        "refusal",
        "regex",
        "rouge_l",
        "set_f1",
        "token_f1",
    )
    assert SCORERS.broken == {}


@pytest.mark.parametrize("scorer", list(SCORERS), ids=lambda scorer: scorer.name)
def test_scorer_keeps_its_promises(scorer: Scorer) -> None:
    check_scorer(scorer)


class Drawn(NamedTuple):
    """An item; without a target or a sample it takes those of the scorer's known case."""

    known: int
    input: Any
    output: Any
    target: Any
    sample: dict[str, Any] | None


KNOWN = object()


@pytest.fixture(scope="module")
def drawn() -> list[Drawn]:
    """Items for every scorer: drawing one takes longer than scoring it."""
    items: list[Drawn] = []

    @settings(max_examples=100, database=None)
    @given(
        st.builds(
            Drawn,
            known=st.integers(0, 99),
            input=json_values,
            output=json_values,
            target=st.just(KNOWN) | json_values,
            sample=st.none() | samples,
        )
    )
    def draw(item: Drawn) -> None:
        items.append(item)

    draw()
    return items


@pytest.mark.parametrize("scorer", list(SCORERS), ids=lambda scorer: scorer.name)
def test_any_json_gets_a_score_or_a_reason(scorer: Scorer, drawn: list[Drawn]) -> None:
    ready = [scorer.ready(scorer.options_from(known.options)) for known in scorer.known]
    assert len(drawn) == 100
    for place, told in enumerate(drawn):
        known = scorer.known[told.known % len(ready)]
        item = Scorable(
            id="x",
            input=told.input,
            target=known.target if told.target is KNOWN else told.target,
            output=told.output,
            sample=known.sample if told.sample is None else told.sample,
        )
        score_item = ready[told.known % len(ready)]
        score = score_item(item)
        assert (score.value is None) != (score.reason is None), (place, item)
        assert score_item(item) == score, (place, item)


@pytest.mark.parametrize("scorer", list(SCORERS), ids=lambda scorer: scorer.name)
def test_an_unknown_option_names_the_scorer(scorer: Scorer) -> None:
    with pytest.raises(BadInputError, match=f"scorer {scorer.name}: .*no_such"):
        scorer.options_from({"no_such": 1})


@pytest.mark.parametrize(
    ("name", "options", "finding"),
    [
        ("contains", {"phrases": [" "]}, "phrases must not be empty"),
        ("contains", {"mode": "none"}, "Invalid enum value 'none'"),
        ("numeric", {"abs_tolerance": -1}, "abs_tolerance must be finite and >= 0, got -1"),
        ("numeric", {"decimal": ","}, "thousands and decimal must differ"),
        ("json_equal", {"rel_tolerance": -0.1}, "rel_tolerance must be finite and >= 0"),
        ("json_equal", {"ignore": ["a.b"]}, "ignore must hold JSON Pointers"),
        ("choice", {"letters": "AAB"}, "two or more different ones"),
        ("choice", {"letters": "12"}, "capitals from A to Z"),
        ("set_f1", {"separator": ""}, "separator must not be empty"),
        ("canary", {"forbidden_text": ["\u200b"]}, "must not be empty"),
        ("canary", {"must_refuse": True, "refusal_phrases": []}, "needs refusal_phrases"),
        ("python", {"function": "os.system"}, "function must be module:function"),
        ("python", {"function": "../x:f"}, "function must be module:function"),
        ("judge", {"votes": 2}, "votes must be odd, 1 to 99, got 2"),
        ("judge", {"template": "{{answer}}"}, "template must have exactly the slots"),
        ("judge", {"model": " "}, "model must name the judge's model"),
    ],
)
def test_senseless_options_are_refused(name: str, options: dict[str, Any], finding: str) -> None:
    with pytest.raises(BadInputError, match=finding):
        SCORERS.get(name).options_from(options)
