"""A small language model in numpy, trained in seconds, with a real guard chain to measure.

It predicts the next word from the three before it: embeddings, one hidden layer, softmax.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError
from gatemark.plugins.overhead.records import MetricKind
from gatemark.plugins.overhead.targets.port import EvidenceWindow, Loss, PassSeeds

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
    """Return ``count`` tokens of sentences, as positions in the vocabulary."""
    places = {word: place for place, word in enumerate(VOCABULARY)}
    tokens: list[int] = []
    while len(tokens) < count:
        tokens.extend(places[word] for word in _draw_sentence(rng))
    return np.array(tokens[:count], dtype=np.int64)


def _draw_sentence(rng: np.random.Generator) -> list[str]:
    """Return a sentence about an animal and a thing; each animal prefers some verbs."""
    animal = int(rng.integers(len(_ANIMALS)))
    # Habits make the next word depend on more than the last one.
    verb = (animal + int(rng.integers(3))) % len(_VERBS)
    thing = (2 * verb + int(rng.integers(2))) % len(_THINGS)
    words = [
        *_draw_noun_phrase(rng, _ANIMALS[animal]),
        _VERBS[verb],
        *_draw_noun_phrase(rng, _THINGS[thing]),
    ]
    if rng.random() < 0.4:
        place = _THINGS[int(rng.integers(len(_THINGS)))]
        words += [_pick(rng, _PREPOSITIONS), *_draw_noun_phrase(rng, place)]
    if rng.random() < 0.3:
        words.append(_pick(rng, _ADVERBS))
    return [*words, _END]


def _draw_noun_phrase(rng: np.random.Generator, noun: str) -> list[str]:
    words = [_pick(rng, _ARTICLES)]
    if rng.random() < 0.5:
        words.append(_pick(rng, _ADJECTIVES))
    return [*words, noun]


def _pick(rng: np.random.Generator, words: tuple[str, ...]) -> str:
    return words[int(rng.integers(len(words)))]


Floats = NDArray[np.float64]

Preset = Literal["harmless", "harmful"]


class GuardSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limit of each guard; null leaves a guard out.

    ``clip`` limits the hidden pre-activations. ``spectral_cap`` limits the largest singular value
    of the output weights, as a share of the trained one. ``variance`` is how far, as a share, the
    spread of a window's hidden state may differ from the calibrated one before it is scaled back.
    """

    clip: Annotated[float, Meta(gt=0)] | None = None
    spectral_cap: Annotated[float, Meta(gt=0)] | None = None
    variance: Annotated[float, Meta(ge=0)] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The guards of the chain, in order."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is not None)


PRESETS: Final[dict[Preset, GuardSettings]] = {
    "harmless": GuardSettings(clip=1.5, spectral_cap=0.95, variance=0.03),
    "harmful": GuardSettings(clip=0.5, spectral_cap=0.5, variance=0.02),
}


def clip_values(values: Floats, limit: float) -> Floats:
    """Clip values to [-limit, limit]."""
    return np.clip(values, -limit, limit)


def cap_spectrum(weights: Floats, cap: float) -> Floats:
    """Scale weights down so that no singular value exceeds the cap."""
    largest = float(np.linalg.norm(weights, 2))
    return weights * (cap / largest) if largest > cap else weights


def steady_variance(hidden: Floats, calibrated: float, tolerance: float) -> Floats:
    """Scale a hidden state so that its spread stays within the tolerance."""
    spread = float(hidden.std())
    low, high = calibrated * (1 - tolerance), calibrated * (1 + tolerance)
    if spread == 0 or low <= spread <= high:
        return hidden
    return hidden * ((low if spread < low else high) / spread)


Tokens = NDArray[np.int64]
Weights = dict[str, Floats]

CONTEXT: Final = 3
EMBEDDED: Final = 16
HIDDEN: Final = 64
BATCH: Final = 64
"""Small, so that matrix products stay on one thread."""
LEARNING_RATE: Final = 0.01
_DECAYS: Final = (0.9, 0.999)


class NumpyModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the example."""

    guard: Preset | GuardSettings = "harmless"
    windows: Annotated[int, Meta(ge=2, le=100_000)] = 200
    seq_len: Annotated[int, Meta(ge=CONTEXT + 1, le=4_096)] = 64
    train_tokens: Annotated[int, Meta(ge=1_000, le=1_000_000)] = 40_000
    steps: Annotated[int, Meta(ge=1, le=100_000)] = 1_000


def build(options: Mapping[str, object], seeds: PassSeeds) -> NumpyLm:
    """Train the model and add its guards."""
    try:
        settings = msgspec.convert(dict(options), NumpyModelSettings)
    except msgspec.ValidationError as error:
        raise BadInputError(f"numpy_lm: {error}") from error
    rng = np.random.default_rng(seeds.numpy or 0)
    weights = _train(settings, rng)
    held_out = make_tokens(settings.windows * settings.seq_len, rng)
    guards = PRESETS[settings.guard] if isinstance(settings.guard, str) else settings.guard
    return NumpyLm(weights, held_out.reshape(settings.windows, settings.seq_len), guards)


class NumpyLm:
    """The trained model as a target; its state is the weights that guards may change."""

    kind: MetricKind = "ppl_causal"
    device = "cpu"

    def __init__(self, weights: Weights, windows: Tokens, guards: GuardSettings) -> None:
        self.seq_len = self.stride = windows.shape[1]
        self.guards = guards.names
        self._weights = weights
        self._windows = windows
        self._settings = guards
        self._active = GuardSettings()
        self._trained_norm = float(np.linalg.norm(weights["out"], 2))
        spreads = [float(self._compute_hidden(row).std()) for row in windows[:16]]
        self._calibrated = float(np.median(spreads))

    def windows(self) -> Sequence[EvidenceWindow]:
        return tuple(EvidenceWindow(row.astype("<i8").tobytes(), row) for row in self._windows)

    def snapshot(self) -> Weights:
        return {name: array.copy() for name, array in self._weights.items()}

    def restore(self, snapshot: Weights) -> None:
        self._active = GuardSettings()
        self._weights = {name: array.copy() for name, array in snapshot.items()}

    def fingerprint(self) -> str:
        found = hashlib.sha256()
        for name, array in sorted(self._weights.items()):
            found.update(f"{name}{array.shape}".encode())
            found.update(array.astype("<f8").tobytes())
        return DIGEST_PREFIX + found.hexdigest()

    def toggle(self, *, guarded: bool) -> None:
        self._switch_on(self._settings if guarded else GuardSettings())

    def toggle_one(self, guard: str) -> None:
        self._switch_on(GuardSettings(**{guard: getattr(self._settings, guard)}))

    def _switch_on(self, active: GuardSettings) -> None:
        self._active = active
        share = active.spectral_cap
        if share is not None:
            self._weights["out"] = cap_spectrum(self._weights["out"], share * self._trained_norm)

    def evaluate(self, window: EvidenceWindow) -> Loss:
        row: Tokens = window.data
        hidden = self._compute_hidden(row)
        if self._active.variance is not None:
            hidden = steady_variance(hidden, self._calibrated, self._active.variance)
        logits = hidden @ self._weights["out"] + self._weights["out_bias"]
        losses = _compute_losses(logits, row[CONTEXT:])
        return Loss(tokens=losses.size, loss=float(losses.mean()))

    def _compute_hidden(self, row: Tokens) -> Floats:
        before = self._weights["embed"][_build_contexts(row)].reshape(-1, CONTEXT * EMBEDDED)
        active = before @ self._weights["hidden"] + self._weights["hidden_bias"]
        if self._active.clip is not None:
            active = clip_values(active, self._active.clip)
        return np.tanh(active)


def _build_contexts(row: Tokens) -> Tokens:
    return np.lib.stride_tricks.sliding_window_view(row[:-1], CONTEXT)


def _compute_losses(logits: Floats, wanted: Tokens) -> Floats:
    highest = logits.max(axis=1, keepdims=True)
    total = np.log(np.exp(logits - highest).sum(axis=1)) + highest[:, 0]
    return np.asarray(total - logits[np.arange(wanted.size), wanted])


def _train(settings: NumpyModelSettings, rng: np.random.Generator) -> Weights:
    """Train by Adam with a decreasing rate, on small batches."""
    words = len(VOCABULARY)
    tokens = make_tokens(settings.train_tokens, rng)
    contexts, wanted = _build_contexts(tokens), tokens[CONTEXT:]
    weights: Weights = {
        "embed": rng.normal(0, 0.1, (words, EMBEDDED)),
        "hidden": rng.normal(0, 0.2, (CONTEXT * EMBEDDED, HIDDEN)),
        "hidden_bias": np.zeros(HIDDEN),
        "out": rng.normal(0, 0.1, (HIDDEN, words)),
        "out_bias": np.zeros(words),
    }
    means = {name: np.zeros_like(array) for name, array in weights.items()}
    squares = {name: np.zeros_like(array) for name, array in weights.items()}
    for step in range(1, settings.steps + 1):
        rate = LEARNING_RATE * (1 - (step - 1) / settings.steps)
        picked = rng.integers(0, wanted.size, BATCH)
        gradients = _compute_gradients(weights, contexts[picked], wanted[picked])
        for name, slope in gradients.items():
            means[name] += (1 - _DECAYS[0]) * (slope - means[name])
            squares[name] += (1 - _DECAYS[1]) * (slope**2 - squares[name])
            mean = means[name] / (1 - _DECAYS[0] ** step)
            spread = np.sqrt(squares[name] / (1 - _DECAYS[1] ** step)) + 1e-8
            weights[name] -= rate * mean / spread
    return weights


def _compute_gradients(weights: Weights, contexts: Tokens, wanted: Tokens) -> Weights:
    before = weights["embed"][contexts].reshape(-1, CONTEXT * EMBEDDED)
    hidden = np.tanh(before @ weights["hidden"] + weights["hidden_bias"])
    logits = hidden @ weights["out"] + weights["out_bias"]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(wanted.size), wanted] -= 1
    shares /= wanted.size
    back = (shares @ weights["out"].T) * (1 - hidden**2)
    embed = np.zeros_like(weights["embed"])
    np.add.at(embed, contexts.ravel(), (back @ weights["hidden"].T).reshape(-1, EMBEDDED))
    return {
        "embed": embed,
        "hidden": before.T @ back,
        "hidden_bias": back.sum(axis=0),
        "out": hidden.T @ shares,
        "out_bias": shares.sum(axis=0),
    }
