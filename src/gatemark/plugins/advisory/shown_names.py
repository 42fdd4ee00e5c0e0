"""The names of lanes, runs and fixture sets that may be shown."""

from __future__ import annotations

from gatemark.evidence.private_text import PrivateTextScan
from gatemark.plugins.advisory.exam_state import AdvisoryExamState, list_lanes


def choose_shown_names(state: AdvisoryExamState, scan: PrivateTextScan) -> dict[str, str]:
    """Return replacements for names that look private: a number for each."""
    names = {name for lane in list_lanes(state) for name in lane.split("/")}
    names |= {*state.fixture_sets, *(key.run for key in state.runs)}
    ordered = sorted(names, key=lambda name: (len(name), name))
    withheld = [name for name in ordered if scan.kinds(name)]
    return {name: f"withheld-{number}" for number, name in enumerate(withheld, 1)}
