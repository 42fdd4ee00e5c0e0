from __future__ import annotations

import random

import numpy as np
import pytest

from gatemark.checks.agreement.arbitrate import SOURCE_ROLES, LabelSpace
from gatemark.checks.agreement.views import RowTable


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_written_like_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    space = LabelSpace(SOURCE_ROLES)
    form = draw.choice(("Q{:05d}", "Q{}", "=Q{:05d}", "größe{:05d}", "back\\slash{:05d}"))
    shards, lines = [], []
    used = draw.sample(range(len(space.cells)), draw.randint(1, 8))
    wanted = draw.sample(used, draw.randint(1, len(used)))
    ends = ["\t" + "x" * (code % 7) + "\n" for code in range(len(space.cells))]
    for shard in range(3):
        names = [form.format(shard * 1000 + n) for n in range(draw.choice((0, 1, 90)))]
        codes = [draw.choice(used) for _ in names]
        shards.append(("".join(f"{n}\n" for n in names).encode(), np.array(codes, "<u2").tobytes()))
        shown = [("\\" * name.startswith("=") + name.replace("\\", "\\\\")) for name in names]
        lines += [n + ends[code] for n, code in zip(shown, codes, strict=True) if code in wanted]
    table = RowTable(shards, space).write(ends, ("a", "b"), wanted)
    assert table.decode() == "a\tb\n" + "".join(lines)
