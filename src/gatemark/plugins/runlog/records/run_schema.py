"""``exaid.run``: the schema of run logs, of today and of older versions."""

from __future__ import annotations

from typing import Final

from gatemark.core.record import Dialect, Form, RecordSchema
from gatemark.evidence.record_rules import words_of_patterns
from gatemark.plugins.runlog.records.examples import ExamplesOf
from gatemark.plugins.runlog.records.forms import make_form
from gatemark.plugins.runlog.records.older_fields import SINCE_1_5
from gatemark.plugins.runlog.records.older_run import (
    OlderRunRules,
    RunMeta13,
    SingleRun,
    SingleRunRules,
    SummaryEvent13,
    TokengateFlush13,
    check_single_run,
    is_before_1_5,
    is_single_record,
)
from gatemark.plugins.runlog.records.run import (
    BufferDecision,
    RunMeta,
    SummaryEvent,
    TokengateFlush,
)
from gatemark.plugins.runlog.records.run_file_rules import RUN_RULES, RunRules
from gatemark.plugins.runlog.records.run_rules import (
    DECISION_RULES,
    EVENT_RULES,
    FLUSH_RULES,
    META_REMARKS,
    META_RULES,
    OLDER_META_RULES,
)

_NOW, _SINCE_1_3, _SINCE_1_0 = (ExamplesOf("run", version) for version in ("1.5", "1.3", "1.0"))

_BEFORE_1_5: Final = RecordSchema(
    name="exaid.run",
    summary="A run log of 1.3.0 or 1.4.x.",
    tag="record_type",
    across=OlderRunRules,
    forms=(
        make_form(RunMeta13, _SINCE_1_3, OLDER_META_RULES),
        make_form(TokengateFlush13, _SINCE_1_3, FLUSH_RULES),
        make_form(BufferDecision, _SINCE_1_3, DECISION_RULES),
        make_form(SummaryEvent13, _SINCE_1_3, EVENT_RULES),
    ),
    good_files=_SINCE_1_3.good_files,
    bad_files=_SINCE_1_3.bad_files,
)
_BEFORE_1_3: Final = RecordSchema(
    name="exaid.run",
    summary="A run log of 1.2.x or before: a whole run in one object.",
    across=SingleRunRules,
    forms=(
        Form(
            name="single_record",
            type=SingleRun,
            marks=frozenset({"schema_version", "case_id"}),
            identity="case_id",
            good=_SINCE_1_0.list_good("single_record"),
            bad=_SINCE_1_0.list_bad("single_record"),
            rules=(check_single_run,),
            looks=words_of_patterns(SingleRun),
        ),
    ),
    good_files=_SINCE_1_0.good_files,
    bad_files=_SINCE_1_0.bad_files,
)

SCHEMA: Final = RecordSchema(
    name="exaid.run",
    summary="What one variant did with one case's trace: flushes, decisions, summaries.",
    tag="record_type",
    across=RunRules,
    file_rules=RUN_RULES,
    forms=(
        make_form(RunMeta, _NOW, META_RULES, of_file=META_REMARKS),
        make_form(TokengateFlush, _NOW, FLUSH_RULES),
        make_form(BufferDecision, _NOW, DECISION_RULES),
        make_form(SummaryEvent, _NOW, EVENT_RULES, required=SINCE_1_5[SummaryEvent]),
    ),
    good_files=_NOW.good_files,
    bad_files=_NOW.bad_files,
    older=(
        Dialect(accepts=is_before_1_5, schema=_BEFORE_1_5),
        Dialect(accepts=is_single_record, schema=_BEFORE_1_3),
    ),
)
