"""The rules of each record of a trace, as rows: a place, a condition, a demand, a sentence.

``trace_file_rules`` has the rules across records.
"""

from __future__ import annotations

from typing import Final

from gatemark.evidence.record_rules import MISSING, RecordRule, differs

BOUNDARY_RULES: Final = (
    RecordRule(
        "$.content_hash",
        when={"boundary": differs("end")},
        must=MISSING,
        says="only the end of a turn may have one",
    ),
)
