"""Published tables of several raters, the definitions rater by rater, and other libraries."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.contingency import build_confusion, cohen_kappa, nominal_alpha
from gatemark.statistics.raters import COEFFICIENTS, MISSING, RatingTable, tail_probability

Rows = list[list[str]]

RAW_4_RATERS = "1101 2232 3333 3333 2222 1234 4444 1121 2222 0555 0011 0030"
"""irrCAC's cac.raw4raters, which is the table of Krippendorff (2011); 0 is missing."""

FLEISS_1971 = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""
"""How many of six psychiatrists gave each of five diagnoses to each of thirty patients."""


def table_of(rows: Rows, missing: str = "0") -> RatingTable:
    labels = sorted({label for row in rows for label in row} - {missing})
    codes = [[MISSING if one == missing else labels.index(one) for one in row] for row in rows]
    return RatingTable(codes, len(labels))


def table_of_counts(text: str, items: slice = slice(None)) -> RatingTable:
    """A table whose raters are not known by name."""
    rows = [
        [label for label, count in enumerate(row) for _ in range(int(count))]
        for row in text.split()[items]
    ]
    return RatingTable(rows, 5)


def values(table: RatingTable) -> dict[str, float | None]:
    return {name: table.estimate(one, 0.95).estimate.value for name, one in COEFFICIENTS.items()}


def test_the_readme_of_irrcac_raw_ratings() -> None:
    table = table_of([list(row) for row in RAW_4_RATERS.split()])
    published = {
        "percent_agreement": (0.8181818, 0.12561, 0.542),
        "ac1": (0.77544, 0.14295, 0.461),
        "fleiss_kappa": (0.76117, 0.15302, 0.424),
        "conger_kappa": (0.76282, 0.14917, 0.435),
    }
    for name, (value, error, low) in published.items():
        found = table.estimate(COEFFICIENTS[name], 0.95)
        assert found.estimate.value == pytest.approx(value, abs=5e-6)
        assert found.standard_error == pytest.approx(error, abs=5e-6)
        assert found.delta is not None
        assert found.delta.low == pytest.approx(low, abs=5e-4)
        assert found.delta.high == 1.0
    alpha = table.estimate(COEFFICIENTS["krippendorff_alpha"], 0.95)
    assert alpha.estimate.value == pytest.approx(0.74342, abs=5e-6)
    # irrCAC gives the error of alpha before its correction for few ratings, 1 - 1/40 here.
    assert alpha.standard_error == pytest.approx(0.14557 * (1 - 1 / 40), abs=2e-4)


def test_the_readme_of_irrcac_distribution_of_raters() -> None:
    table = table_of_counts(FLEISS_1971, slice(15))
    published = {
        "percent_agreement": (0.5511111, None),
        "ac1": (0.4448007, 0.08418757),
        "fleiss_kappa": (0.4139265, 0.08119291),
        # irrCAC's error is 0.08243228. Of a full table, it must be that of Fleiss' kappa times
        # the correction for few ratings, as it is in irrCAC's function for two raters.
        "krippendorff_alpha": (0.4204384, 0.08119291 * (1 - 1 / 90)),
    }
    for name, (value, error) in published.items():
        found = table.estimate(COEFFICIENTS[name], 0.95)
        assert found.estimate.value == pytest.approx(value, abs=5e-8)
        if error is not None:
            assert found.standard_error == pytest.approx(error, abs=2e-5)


def test_the_readme_of_irrcac_two_abstractors() -> None:
    cells = {"Ectopic": {"Ectopic": 13}, "AIU": {"AIU": 20, "NIU": 7}, "NIU": {"AIU": 4, "NIU": 56}}
    rows = [
        [one, other] for one, row in cells.items() for other, n in row.items() for _ in range(n)
    ]
    table = table_of(rows)
    published = {
        "percent_agreement": (0.89, 0.03128898),
        "conger_kappa": (0.7964094, 0.05891072),
        "fleiss_kappa": (0.7962397, 0.05905473),
        "ac1": (0.8493305, 0.04321747),
        "krippendorff_alpha": (0.7972585, 0.05905473 * (1 - 1 / 200)),
    }
    for name, (value, error) in published.items():
        found = table.estimate(COEFFICIENTS[name], 0.95)
        assert found.estimate.value == pytest.approx(value, abs=5e-8)
        # irrCAC divides by n here and by n - 1 for raw ratings.
        assert found.standard_error == pytest.approx(error, rel=0.01)


def test_fleiss_1971() -> None:
    table = table_of_counts(FLEISS_1971)
    assert table.counts.sum(axis=0).tolist() == [26, 26, 30, 55, 43]
    found = values(table)
    assert found["percent_agreement"] == pytest.approx(0.5556, abs=5e-5)
    assert found["fleiss_kappa"] == pytest.approx(0.430, abs=5e-4)


@pytest.mark.parametrize(
    ("first", "second", "alpha"),
    [("0100000010", "1110010000", 0.095), ("aabbdcccedda", "babbbcccEddd".lower(), 0.692)],
)
def test_krippendorff_2011_two_observers(first: str, second: str, alpha: float) -> None:
    table = table_of([list(pair) for pair in zip(first, second, strict=True)], missing=".")
    assert values(table)["krippendorff_alpha"] == pytest.approx(alpha, abs=5e-4)


def test_krippendorff_2011_four_observers_with_missing_values() -> None:
    observers = ("123321412***", "1233224125*3", "*3332342251*", "12332441251*")
    rows = [list(unit) for unit in zip(*observers, strict=True)]
    assert values(table_of(rows, missing="*"))["krippendorff_alpha"] == pytest.approx(
        0.743, abs=5e-4
    )


def random_tables(count: int = 60) -> list[RatingTable]:
    rng = np.random.default_rng(7)
    found = []
    for index in range(count):
        items, raters = int(rng.integers(3, 60)), int(rng.integers(2, 6))
        labels = int(rng.integers(2, 6))
        shares = rng.dirichlet(np.full(labels, (0.5, 5.0)[index % 2]))
        truth = rng.choice(labels, size=items, p=shares)
        noise = rng.choice(labels, size=(items, raters), p=shares)
        codes = np.where(rng.random((items, raters)) < 0.7, truth[:, np.newaxis], noise)
        codes[rng.random((items, raters)) < (0.0, 0.2, 0.5)[index % 3]] = MISSING
        # Irregular tables: everyone rates the first item, so that no rater is left out.
        codes[0] = truth[0]
        found.append(RatingTable(codes, labels))
    return found


def by_definition(table: RatingTable) -> dict[str, float]:
    """The coefficients rater by rater and pair by pair, in plain arithmetic."""
    rows = [[int(code) for code in row] for row in table.codes]
    given = [[code for code in row if code != MISSING] for row in rows]
    labels = range(table.label_count)
    items = [row for row in given if row]
    agreed = [
        sum(a == b for a, b in permutations(row, 2)) / (len(row) * (len(row) - 1))
        for row in items
        if len(row) > 1
    ]
    pa = sum(agreed) / len(agreed)
    share = {k: sum(row.count(k) / len(row) for row in items) / len(items) for k in labels}
    columns = [[code for code in column if code != MISSING] for column in zip(*rows, strict=True)]
    own = [{k: column.count(k) / len(column) for k in labels} for column in columns]
    pairs = list(combinations(own, 2))
    chances = {
        "fleiss_kappa": sum(one**2 for one in share.values()),
        "ac1": sum(one * (1 - one) for one in share.values()) / (len(labels) - 1),
        "conger_kappa": sum(a[k] * b[k] for a, b in pairs for k in labels) / len(pairs),
    }
    found = {name: (pa - chance) / (1 - chance) for name, chance in chances.items() if chance < 1}
    return {"percent_agreement": pa, **found}


@pytest.mark.parametrize("table", random_tables())
def test_coefficients_follow_their_definitions(table: RatingTable) -> None:
    found = values(table)
    for name, value in by_definition(table).items():
        assert found[name] == pytest.approx(value, abs=1e-12)
    alpha = nominal_alpha(table.counts).value
    assert found["krippendorff_alpha"] == (alpha and pytest.approx(alpha, abs=1e-12))


@pytest.mark.parametrize("seed", range(3))
def test_the_standard_error_is_close_to_the_jackknife(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, raters = 150, 4
    truth = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    follows = rng.random((n, raters)) < 0.8
    codes = np.where(follows, truth[:, np.newaxis], rng.integers(0, 3, (n, raters)))
    codes[:, :2][rng.random((n, 2)) < 0.2] = MISSING
    table = RatingTable(codes, 3)
    assert table.paired_count == n
    others = [RatingTable(np.delete(codes, place, axis=0), 3) for place in range(n)]
    for one in COEFFICIENTS.values():
        left_out = np.array([other.estimate(one, 0.95).estimate.value for other in others])
        jackknife = float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))
        assert table.estimate(one, 0.95).standard_error == pytest.approx(jackknife, rel=0.05)


def test_congers_kappa_of_two_raters_is_cohens() -> None:
    for table in random_tables():
        if table.codes.shape[1] != 2 or (table.codes == MISSING).any():
            continue
        cells: dict[str, dict[str, int]] = {}
        for (one, other), count in Counter(map(tuple, table.codes.tolist())).items():
            cells.setdefault(str(one), {})[str(other)] = count
        _, square = build_confusion(cells)
        assert values(table)["conger_kappa"] == pytest.approx(cohen_kappa(square).value, abs=1e-12)


@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_other_libraries_give_the_same() -> None:
    krippendorff = pytest.importorskip("krippendorff")
    raw = pytest.importorskip("irrCAC.raw")
    pd: Any = pytest.importorskip("pandas")
    for table in random_tables():
        codes = np.where(table.codes == MISSING, np.nan, table.codes.astype(float))
        found = values(table)
        if found["krippendorff_alpha"] is None:
            continue
        alpha = krippendorff.alpha(codes.T, level_of_measurement="nominal")
        assert found["krippendorff_alpha"] == pytest.approx(alpha, abs=1e-9)
        frame = pd.DataFrame(codes).dropna(how="all")
        peer = raw.CAC(frame, categories=[float(k) for k in range(table.label_count)], digits=9)
        for name, result in {
            "ac1": peer.gwet(),
            "fleiss_kappa": peer.fleiss(),
            "conger_kappa": peer.conger(),
        }.items():
            assert found[name] == pytest.approx(result["est"]["coefficient_value"], abs=1e-8)
            error = table.estimate(COEFFICIENTS[name], 0.95).standard_error
            assert error == pytest.approx(result["est"]["se"], abs=1e-8)


def test_full_agreement_has_an_interval_of_some_width() -> None:
    # 27 and 3 items: chance .82, and Wilson's lower end of 30 of 30 is .8865.
    found = RatingTable([[0, 0]] * 27 + [[1, 1]] * 3, 2).estimate(
        COEFFICIENTS["fleiss_kappa"], 0.95
    )
    assert found.standard_error == pytest.approx(0.0, abs=1e-12)
    assert found.interval is not None
    assert found.interval.low == pytest.approx((0.8865 - 0.82) / 0.18, abs=1e-3)
    assert found.interval.high == 1.0


@pytest.mark.parametrize(
    ("n", "shares"), [(50, (0.5, 0.5)), (50, (0.9, 0.1)), (100, (0.93, 0.07)), (300, (0.95, 0.05))]
)
def test_the_lower_end_is_rarely_above_the_truth(n: int, shares: tuple[float, ...]) -> None:
    rng = np.random.default_rng(n)

    def drawn(items: int) -> RatingTable:
        truth = rng.choice(2, size=items, p=shares)
        noise = rng.choice(2, size=(items, 3), p=shares)
        follows = rng.random((items, 3)) < 0.9
        return RatingTable(np.where(follows, truth[:, np.newaxis], noise), 2)

    kappa = COEFFICIENTS["fleiss_kappa"]
    true = drawn(200_000).estimate(kappa, 0.95).estimate.value
    assert true is not None
    lows = [found.low for _ in range(300) if (found := drawn(n).estimate(kappa, 0.95).interval)]
    # At most 2.5 % by construction; the delta method alone has 9 to 20 % in the skewed ones.
    assert sum(low > true for low in lows) / len(lows) <= 0.05


def test_one_label_leaves_kappa_and_alpha_undefined_and_ac1_is_1() -> None:
    found = values(RatingTable([[0, 0, 0]] * 20, 1))
    assert found == {
        "percent_agreement": 1.0,
        "fleiss_kappa": None,
        "conger_kappa": None,
        "ac1": 1.0,
        "krippendorff_alpha": None,
    }


def test_no_pair_of_ratings_leaves_all_undefined() -> None:
    assert set(values(RatingTable([[0, MISSING], [MISSING, 1]], 2)).values()) == {None}


def test_specific_agreement_of_a_label_and_of_one_rater() -> None:
    # Three raters: A A A, A A B, B B A. Pairs with A: 6 + 4 + 2; of these alike: 6 + 2 + 0.
    table = RatingTable([[0, 0, 0], [0, 0, 1], [1, 1, 0]], 2)
    found = table.label_agreement(0, 0.95)
    assert found is not None
    assert (found.uses, found.items) == (6, 3)
    assert found.value == pytest.approx(8 / 12)
    # The third rater on B: own B against A A (2 pairs), others' B against own A (2): none alike.
    worst = table.rater_agreement(2, 1, 0.95)
    assert worst is not None
    assert worst.value == 0.0
    assert worst.items == 2
    assert table.label_agreement(1, 0.95).value == pytest.approx(2 / 6)  # type: ignore[union-attr]


def test_the_tail_is_that_of_drawing_without_replacement() -> None:
    # 3 of 10 drawn, 4 marked: at least 2 marked in (C(4,2) C(6,1) + C(4,3)) / C(10,3).
    assert tail_probability(3, 4, 2, 10) == pytest.approx((6 * 6 + 4) / 120)
    assert tail_probability(3, 4, 0, 10) == pytest.approx(1.0)


def test_codes_outside_of_the_labels_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="codes must be"):
        RatingTable([[0, 2]], 2)
    with pytest.raises(InvalidValueError, match="items by raters"):
        RatingTable([0, 1], 2)
