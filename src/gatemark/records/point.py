"""``gatemark.point/1``: one watched metric of one asset over one closed window.

The types are in ``gatemark.core.point``, because points are also counted here.
"""

from __future__ import annotations

from typing import Final

from gatemark.core.point import NAME, Point, point_is_whole
from gatemark.core.record import BadExample, Form, RecordSchema

_WINDOW: Final = {
    "asset": "support-triage",
    "metric": "golden_accuracy",
    "start": "2026-03-01T00:00:00Z",
    "end": "2026-03-02T00:00:00Z",
}
_VALUE: Final = _WINDOW | {"value": 0.93, "n": 200}
_BINS: Final = {"items": [0, 40], "confidence_sum": [0, 33.5], "correct": [0, 31]}

SCHEMA: Final = RecordSchema(
    name=NAME,
    summary="One watched metric of one asset over one closed window.",
    forms=(
        Form(
            name="point",
            type=Point,
            marks=frozenset({"asset", "metric", "start", "end"}),
            identity="asset",
            unique=("asset", "metric", "start", "source"),
            good=(
                _VALUE,
                _VALUE | {"schema": NAME, "source": "replica-2", "value": -1.5},
                _WINDOW | {"n": 10, "sum": 4.0, "sum_squares": 2.5},
                _WINDOW | {"n": 200, "k": 7},
                _WINDOW | {"histogram": [0, 3, 9, 0]},
                _WINDOW | {"histogram": [5, 1], "edges": [0, 0.5, 20]},
                _WINDOW | {"calibration": _BINS},
                _WINDOW | {"categories": {"timeout": 3, "none": 190}},
            ),
            bad=(
                BadExample("no form", _WINDOW, "$"),
                BadExample("two forms", _VALUE | {"k": 3}, "$"),
                BadExample("a value without n", _WINDOW | {"value": 0.5}, "$.n"),
                BadExample("no items", _VALUE | {"n": 0}, "$.n"),
                BadExample("a value that is no number", _VALUE | {"value": None}, "$.value"),
                BadExample("NaN in words", _VALUE | {"value": "NaN"}, "$.value"),
                BadExample("a value out of bounds", _VALUE | {"value": 1e300}, "$.value"),
                BadExample("more hits than items", _WINDOW | {"n": 3, "k": 4}, "$.k"),
                BadExample("a sum alone", _WINDOW | {"n": 3, "sum": 1.0}, "$.sum_squares"),
                BadExample(
                    "squares that cannot be",
                    _WINDOW | {"n": 2, "sum": 4.0, "sum_squares": 7.0},
                    "$.sum_squares",
                ),
                BadExample("an empty histogram", _WINDOW | {"histogram": [0, 0]}, "$.histogram"),
                BadExample(
                    "edges that do not fit",
                    _WINDOW | {"histogram": [1, 2], "edges": [0, 1, 2, 3]},
                    "$.edges",
                ),
                BadExample(
                    "edges that fall",
                    _WINDOW | {"histogram": [1, 2], "edges": [0, 2, 1]},
                    "$.edges",
                ),
                BadExample("edges without a histogram", _VALUE | {"edges": [0, 1, 2]}, "$.edges"),
                BadExample("n beside counts", _WINDOW | {"n": 3, "histogram": [1, 2]}, "$.n"),
                BadExample(
                    "more right than there are",
                    _WINDOW | {"calibration": _BINS | {"correct": [0, 41]}},
                    "$.calibration.correct[1]",
                ),
                BadExample(
                    "too much confidence",
                    _WINDOW | {"calibration": _BINS | {"confidence_sum": [0, 40.5]}},
                    "$.calibration.confidence_sum[1]",
                ),
                BadExample(
                    "bins of two lengths",
                    _WINDOW | {"calibration": _BINS | {"correct": [3]}},
                    "$.calibration",
                ),
                BadExample("nothing counted", _WINDOW | {"categories": {"a": 0}}, "$.categories"),
                BadExample(
                    "a category of two lines", _WINDOW | {"categories": {"a\nb": 1}}, "$.categories"
                ),
                BadExample("ends before it starts", _VALUE | {"end": _WINDOW["start"]}, "$.end"),
                BadExample("no time zone", _VALUE | {"start": "2026-03-01T00:00:00"}, "$.start"),
                BadExample(
                    "half a second", _VALUE | {"start": "2026-03-01T00:00:00.5Z"}, "$.start"
                ),
                BadExample("a metric on two lines", _VALUE | {"metric": "a\nb"}, "$.metric"),
                BadExample("a misspelled field", _VALUE | {"windows": 3}, "$"),
                BadExample("another schema", _VALUE | {"schema": "gatemark.vote/1"}, "$.schema"),
            ),
            rules=(point_is_whole,),
        ),
    ),
)
