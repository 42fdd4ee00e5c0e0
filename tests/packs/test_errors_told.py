from __future__ import annotations

from gatemark.packs.answers import Answer
from gatemark.packs.error_rates import measure_error_rate


def failed(n: int, kind: str | None, reason: str | None) -> Answer:
    return Answer(f"i{n}", 1, None, None, reason, error=kind)


def test_the_most_frequent_reasons_are_told_first_on_one_short_line() -> None:
    kinds = ["crash"] * 3 + ["timeout"] * 5 + ["budget", "refused"] + [None]
    answers = [failed(n, kind, f"line one\n {kind} " + "x" * 500) for n, kind in enumerate(kinds)]
    found = measure_error_rate("error_rate", "s", [*answers, Answer("z", 1, "a", 1.0, None)])
    assert (found.value, found.n, found.scope) == (11 / 12, 12, "s")
    assert [text.partition(":")[0] for text in found.caveats] == [
        "5 timeout, such as i3",
        "3 crash, such as i0",
        "1 budget, such as i8",
        "2 other kinds of error",
    ]
    assert all(len(text) < 200 and "\n" not in text for text in found.caveats)


def test_an_arm_without_errors_has_nothing_to_tell() -> None:
    assert measure_error_rate("error_rate", "s", [Answer("z", 1, "a", 1.0, None)]).caveats == ()
    assert measure_error_rate("error_rate", "s", []).value is None
