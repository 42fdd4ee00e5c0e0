"""A synthetic corpus made by a small grammar: enough structure to be learned in seconds."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_ARTICLES: Final = ("the", "a", "every", "some")
_ADJECTIVES: Final = ("red", "small", "old", "quiet", "bright", "cold", "slow", "green")
_ANIMALS: Final = ("fox", "owl", "hare", "crow", "otter", "mole", "wren", "toad")
_THINGS: Final = ("river", "stone", "lamp", "gate", "boat", "tree", "wall", "bell")
_VERBS: Final = ("sees", "follows", "finds", "guards", "leaves", "counts", "hears", "paints")
_PREPOSITIONS: Final = ("near", "under", "behind", "beside")
_ADVERBS: Final = ("today", "slowly", "again", "alone")
_END: Final = "."

VOCABULARY: Final = (
    _END,
    *_ARTICLES,
    *_ADJECTIVES,
    *_ANIMALS,
    *_THINGS,
    *_VERBS,
    *_PREPOSITIONS,
    *_ADVERBS,
)


def make_tokens(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """So many tokens of sentences, as positions in the vocabulary."""
    places = {word: place for place, word in enumerate(VOCABULARY)}
    tokens: list[int] = []
    while len(tokens) < count:
        tokens.extend(places[word] for word in _sentence(rng))
    return np.array(tokens[:count], dtype=np.int64)


def _sentence(rng: np.random.Generator) -> list[str]:
    """An animal does something to a thing; each animal has verbs it prefers."""
    animal = int(rng.integers(len(_ANIMALS)))
    # Habits make the next word depend on more than the last one.
    verb = (animal + int(rng.integers(3))) % len(_VERBS)
    thing = (2 * verb + int(rng.integers(2))) % len(_THINGS)
    words = [*_described(rng, _ANIMALS[animal]), _VERBS[verb], *_described(rng, _THINGS[thing])]
    if rng.random() < 0.4:
        place = _THINGS[int(rng.integers(len(_THINGS)))]
        words += [_pick(rng, _PREPOSITIONS), *_described(rng, place)]
    if rng.random() < 0.3:
        words.append(_pick(rng, _ADVERBS))
    return [*words, _END]


def _described(rng: np.random.Generator, noun: str) -> list[str]:
    words = [_pick(rng, _ARTICLES)]
    if rng.random() < 0.5:
        words.append(_pick(rng, _ADJECTIVES))
    return [*words, noun]


def _pick(rng: np.random.Generator, words: tuple[str, ...]) -> str:
    return words[int(rng.integers(len(words)))]
