"""Packs: the suites a change must pass, how they are run, judged and sealed."""
