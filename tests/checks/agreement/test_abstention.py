from __future__ import annotations

from gatemark.checks.agreement.measure import ABSTENTION
from gatemark.statistics.proportion import wilson_interval


def test_each_rate_has_a_wilson_interval_and_lower_is_better() -> None:
    batch = [("VALID", "ABSTAIN")] * 3 + [("ABSTAIN", "VALID")] + [("VALID", "VALID")] * 59
    found = {measurement.name: measurement for measurement in ABSTENTION.measure(batch)}
    for name, count in (
        ("abstain_rate_first", 1),
        ("abstain_rate_second", 3),
        ("abstain_rate_either", 4),
    ):
        measurement = found[name]
        assert measurement.value == count / 63
        assert measurement.n == 63
        assert measurement.direction == "lower_is_better"
        assert measurement.interval is not None
        assert (measurement.interval.low, measurement.interval.high) == wilson_interval(count, 63)


def test_only_the_exact_label_abstains() -> None:
    found = ABSTENTION.measure([("abstain", "ABSTAIN "), ("ABSTAINED", "VALID")])
    assert [measurement.value for measurement in found] == [0.0, 0.0, 0.0]
