"""``exaid.manifest``: the schema of manifests."""

from __future__ import annotations

from typing import Final

from gatemark.core.record import RecordSchema
from gatemark.plugins.runlog.records.examples import ExamplesOf
from gatemark.plugins.runlog.records.forms import make_form
from gatemark.plugins.runlog.records.manifest import (
    ManifestMeta,
    ManifestProvenance,
    ManifestSummary,
    TraceEntry,
)
from gatemark.plugins.runlog.records.manifest_file_rules import MANIFEST_RULES, ManifestRules
from gatemark.plugins.runlog.records.manifest_rules import META_RULES

_EXAMPLES: Final = ExamplesOf("manifest", "2.0")

SCHEMA: Final = RecordSchema(
    name="exaid.manifest",
    summary="Which traces make up a data set, with their hashes and where they came from.",
    tag="record_type",
    across=ManifestRules,
    file_rules=MANIFEST_RULES,
    forms=(
        make_form(ManifestMeta, _EXAMPLES, META_RULES, identity="dataset_id"),
        make_form(ManifestProvenance, _EXAMPLES, identity="mac_commit"),
        make_form(TraceEntry, _EXAMPLES),
        make_form(ManifestSummary, _EXAMPLES, identity=""),
    ),
    good_files=_EXAMPLES.good_files,
    bad_files=_EXAMPLES.bad_files,
)
