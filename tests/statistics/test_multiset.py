from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.statistics.multiset import add_rows, hash_name, merge_runs, row_type, union_rows

KIND = row_type(("a", "<f8"), ("b", "u1"))
ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, -1.25, 1e300]), st.integers(0, 3), st.integers(1, 5)),
    max_size=30,
)


def _counted(runs) -> Counter:
    return Counter({(a, b): count for a, b, count in union_rows(runs, KIND).tolist()})


@settings(deadline=None, max_examples=60)
@given(st.lists(ROWS, max_size=8), st.randoms(use_true_random=False))
def test_the_union_counts_every_row_in_any_order(batches, order):
    expected: Counter = Counter()
    stepped, states = (), []
    for batch in batches:
        for a, b, count in batch:
            expected[a, b] += count
        stepped = add_rows(stepped, batch, KIND)
        states.append(add_rows((), batch, KIND))
    order.shuffle(states)
    merged = ()
    for state in states:
        merged = merge_runs(state, merged, KIND)
    assert _counted(stepped) == expected
    assert union_rows(stepped, KIND).tobytes() == union_rows(merged, KIND).tobytes()


def test_adding_leaves_the_old_multiset_alone():
    old = add_rows((), [(0.5, 1, 2)], KIND)
    add_rows(old, [(0.5, 1, 3)], KIND)
    assert _counted(old) == {(0.5, 1): 2}


def test_many_small_batches_stay_a_few_runs():
    rng = np.random.default_rng(1)
    runs = ()
    for _ in range(400):
        runs = add_rows(runs, [(float(x), 0, 1) for x in rng.random(5)], KIND)
    assert len(runs) < 16
    assert sum(count for *_, count in union_rows(runs, KIND).tolist()) == 2000


def test_equal_rows_take_no_more_room():
    runs = ()
    for _ in range(100):
        runs = add_rows(runs, [(0.5, 1, 1)] * 50, KIND)
    assert sum(map(len, runs)) == KIND.itemsize
    assert _counted(runs) == {(0.5, 1): 5000}


def test_rows_come_back_sorted():
    rows = union_rows(add_rows((), [(2.0, 1, 1), (1.0, 2, 1), (1.0, 1, 1)], KIND), KIND)
    assert rows.tolist() == [(1.0, 1, 1), (1.0, 2, 1), (2.0, 1, 1)]


def test_names_get_different_keys():
    names = [f"item-{i}" for i in range(5000)] + ["", " ", "ä"]
    assert len({hash_name(name) for name in names}) == len(names)
    assert hash_name("a") == hash_name("a")
