"""Which known names look like a given one: cosine of TF-IDF weights over character trigrams.

Trigrams do not cross words; each word is padded with a blank on both sides. Weights are the usual
smoothed ones, ``(1 + ln((1 + N) / (1 + df)))`` times the count, scaled to length one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import InvalidValueError

GRAM_LENGTH: Final = 3
Floats = NDArray[np.float64]


def word_trigrams(text: str) -> Counter[str]:
    """The counted trigrams of a text; a word shorter than a trigram counts whole."""
    grams: Counter[str] = Counter()
    for word in text.split():
        padded = f" {word} "
        last = max(1, len(padded) - GRAM_LENGTH + 1)
        grams.update(padded[start : start + GRAM_LENGTH] for start in range(last))
    return grams


class TrigramIndex:
    """Names by their trigrams, ready to be compared with any text."""

    def __init__(self, names: Sequence[str]) -> None:
        if not names:
            raise InvalidValueError("an index of names needs at least one name")
        self.size = len(names)
        postings: dict[str, tuple[list[int], list[int]]] = {}
        for row, name in enumerate(names):
            for gram, count in word_trigrams(name).items():
                rows, counts = postings.setdefault(gram, ([], []))
                rows.append(row)
                counts.append(count)
        squares = np.zeros(self.size)
        self._idf: dict[str, float] = {}
        self._postings: dict[str, tuple[NDArray[np.int32], Floats]] = {}
        for gram in sorted(postings):
            rows, counts = postings[gram]
            idf = float(np.log((1 + self.size) / (1 + len(rows))) + 1)
            where = np.asarray(rows, dtype=np.int32)
            weights = np.asarray(counts, dtype=np.float64) * idf
            squares[where] += weights**2
            self._idf[gram] = idf
            self._postings[gram] = (where, weights)
        # A name of blanks has no trigrams and no direction; it is like nothing.
        lengths = np.sqrt(np.where(squares > 0, squares, 1.0))
        for gram, (where, weights) in self._postings.items():
            self._postings[gram] = (where, weights / lengths[where])

    @property
    def gram_count(self) -> int:
        """How many different trigrams the names have."""
        return len(self._idf)

    def similar(self, text: str, least: float) -> tuple[NDArray[np.int64], Floats]:
        """Rows of the names at least this similar, and how similar they are."""
        query = {
            gram: count * self._idf[gram]
            for gram, count in sorted(word_trigrams(text).items())
            if gram in self._idf
        }
        length = float(np.sqrt(sum(weight**2 for weight in query.values())))
        scores = np.zeros(self.size)
        for gram, weight in query.items():
            where, weights = self._postings[gram]
            scores[where] += weights * (weight / length)
        rows = np.flatnonzero(scores >= least) if query else np.empty(0, dtype=np.int64)
        return rows, scores[rows]
