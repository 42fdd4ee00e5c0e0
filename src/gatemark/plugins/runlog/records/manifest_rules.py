"""The rules of each record of a manifest, as rows: a place, a condition, a demand, a sentence.

``manifest_file_rules`` has the rules across records.
"""

from __future__ import annotations

from typing import Final

from gatemark.evidence.record_rules import NOT_FALSE, RecordRule

META_RULES: Final = (
    RecordRule("$.stub_mode", must=NOT_FALSE, says="is there only when it is true, got false"),
)
