"""Small data sets on disk, made by hand: traces, their manifest, and run logs of variants."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gatemark.core.canonical import digest_bytes
from gatemark.plugins.runlog.records import names

T0_MS = 1_700_000_000_000
MOMENT = "2023-11-14T22:13:20.000Z"
MAS_RUN = "mas_0a1b2c3d_synthetic1_0ad5f2b4_d22060bf"
COMMIT = "0a1b2c3d" * 5
CASE_LIST_HASH = digest_bytes(b"cases")
GATES: dict[str, dict[str, Any]] = {
    "V0": {"enabled": True, "min_words": 60, "max_words": 100},
    "V1": {"enabled": False},
}
Turns = Sequence[tuple[str, Sequence[str]]]


def packed(records: Sequence[Mapping[str, Any]]) -> bytes:
    """Records as the bytes of a gzip file."""
    text = b"".join(names.write_compact_json(record) + b"\n" for record in records)
    return gzip.compress(text, mtime=0)


def trace_records(case_id: str, turns: Turns) -> list[dict[str, Any]]:
    """A trace in which a delta comes every 100 ms."""
    records: list[dict[str, Any]] = [
        {
            "record_type": "trace_meta",
            "schema_version": "2.0.0",
            "case_id": case_id,
            "mas_run_id": MAS_RUN,
            "mac_commit": COMMIT,
            "model": "synthetic-1",
            "created_at": MOMENT,
            "t0_emitted_ms": T0_MS,
        }
    ]
    now = 0
    seq = 0

    def boundary(turn: int, agent: str, word: str, **more: Any) -> None:
        nonlocal seq
        records.append(
            {
                "record_type": "turn_boundary",
                "case_id": case_id,
                "seq": seq,
                "turn_id": turn,
                "agent_id": agent,
                "boundary": word,
                "t_ms": T0_MS + now,
                "t_rel_ms": now,
                **more,
            }
        )
        seq += 1

    for turn, (agent, deltas) in enumerate(turns, start=1):
        boundary(turn, agent, "start")
        for text in deltas:
            records.append(
                {
                    "record_type": "stream_delta",
                    "case_id": case_id,
                    "seq": seq,
                    "turn_id": turn,
                    "agent_id": agent,
                    "delta_text": text,
                    "t_emitted_ms": T0_MS + now,
                    "t_rel_ms": now,
                }
            )
            seq += 1
            now += 100
        boundary(turn, agent, "end", content_hash=names.hash_text("".join(deltas)))
    return records


class World:
    """A folder with traces, manifest, configurations and run logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs, self.traces, self.configs = (
            folder / name for name in ("runs", "traces", "configs")
        )
        for place in (self.runs, self.traces, self.configs):
            place.mkdir(parents=True)
        self.entries: list[dict[str, Any]] = []
        self.file_hashes: dict[str, str] = {}
        self.last_seqs: dict[str, int] = {}
        for variant, gate in GATES.items():
            document = {"variant_id": variant, "components": {"token_gate": gate}}
            (self.configs / f"{variant}.yaml").write_text(json.dumps(document), encoding="utf-8")

    @property
    def manifest(self) -> Path:
        return self.traces / "set.manifest.jsonl"

    @property
    def dataset_hash(self) -> str:
        return names.hash_trace_dataset(
            case_list_hash=CASE_LIST_HASH,
            mas_run=MAS_RUN,
            traces=[(entry["case_id"], entry["sha256"]) for entry in self.entries],
        )

    def add_trace(self, case_id: str, turns: Turns) -> None:
        records = trace_records(case_id, turns)
        data = packed(records)
        (self.traces / names.name_trace_file(case_id)).write_bytes(data)
        self.file_hashes[case_id] = digest_bytes(data)
        seqs = [one["seq"] for one in records if one["record_type"] == "stream_delta"]
        self.last_seqs[case_id] = max(seqs, default=0)
        self.entries.append(
            {
                "record_type": "trace_entry",
                "case_id": case_id,
                "file": names.name_trace_file(case_id),
                "sha256": digest_bytes(gzip.decompress(data)),
                "delta_count": sum(len(deltas) for _, deltas in turns),
                "turn_count": len(turns),
            }
        )

    def write_manifest(self) -> None:
        decoding = {"temperature": 1.0}
        records: list[dict[str, Any]] = [
            {
                "record_type": "manifest_meta",
                "schema_version": "2.0.0",
                "dataset_id": "exaid_traces_0a1b2c3d_0ad5f2b4_d22060bf",
                "mas_run_id": MAS_RUN,
                "created_at": MOMENT,
            },
            {
                "record_type": "provenance",
                "mac_fork_url": "https://example.org/mac",
                "mac_commit": COMMIT,
                "exaid_commit": "unknown",
                "model": "synthetic-1",
                "decoding": decoding,
                "case_list_hash": CASE_LIST_HASH,
                "config_hash": digest_bytes(b"config"),
                "trace_dataset_hash": self.dataset_hash,
            },
            *self.entries,
            {
                "record_type": "summary",
                "total_cases": len(self.entries),
                "total_deltas": sum(entry["delta_count"] for entry in self.entries),
                "total_turns": sum(entry["turn_count"] for entry in self.entries),
            },
        ]
        text = b"".join(names.write_compact_json(record) + b"\n" for record in records)
        self.manifest.write_bytes(text)

    def meta(self, case_id: str, variant: str, **changes: Any) -> dict[str, Any]:
        none = "none"
        return {
            "record_type": "run_meta",
            "schema_name": "exaid.run",
            "schema_version": "1.5.0",
            "created_at": MOMENT,
            "case_id": case_id,
            "variant_id": variant,
            "mas_run_id": MAS_RUN,
            "eval_run_id": names.name_eval_run(self.dataset_hash),
            "history_k": 3,
            "trace_file_hash": self.file_hashes[case_id.removesuffix(".trace")],
            "trace_dataset_hash": self.dataset_hash,
            "tokengate_config_hash": names.hash_tokengate_config(GATES[variant]),
            "concept_extractor": {
                "spacy_version": none,
                "scispacy_version": none,
                "scispacy_model": none,
                "linker_name": "user_lexicon",
                "linker_kb_version": None,
                "linker_resolve_abbreviations": False,
                "cui_score_threshold": 0.7,
                "max_k": 10,
                "min_entity_len": 3,
                "concept_representation": "cui",
                "cui_normalization": "uppercase",
            },
            "stoplists_provenance": {
                "stop_entities_hash": digest_bytes(b""),
                "stop_cuis_hash": digest_bytes(b""),
                "stoplists_generated_at": MOMENT,
            },
            "timestamp_derivation": {
                "method": "trace_t_emitted_ms",
                "fallback_method": "run_start_time_plus_seq",
                "missing_t_emitted_ms_count": 0,
            },
            "determinism": {"gzip_mtime": 0, "json_sort_keys": True, "json_separators": [",", ":"]},
            **changes,
        }

    def flush(self, case_id: str, variant: str, index: int, seq: int) -> dict[str, Any]:
        return {
            "record_type": "tokengate_flush",
            "flush_index": index,
            "case_id": case_id,
            "variant_id": variant,
            "timestamp": names.format_moment(T0_MS + 1000 * index),
            "start_seq": 1,
            "end_seq": seq,
            "accumulated_ctu": 10,
            "trigger_reason": "boundary_cue",
        }

    def decision(self, case_id: str, variant: str, index: int, seq: int) -> dict[str, Any]:
        return {
            "record_type": "buffer_decision",
            "decision_index": index,
            "decision_id": names.name_decision(case_id, variant, index),
            "case_id": case_id,
            "variant_id": variant,
            "timestamp": names.format_moment(T0_MS + 1000 * index),
            "start_seq": 1,
            "end_seq": seq,
            "input_ctu": 12,
            "decision": "summarize",
            "llm_usage": {"prompt_ctu": 40, "completion_ctu": 6},
            "latency_ms": 30,
        }

    def event(
        self,
        case_id: str,
        variant: str,
        index: int,
        text: str,
        window: tuple[int, int],
        **more: Any,
    ) -> dict[str, Any]:
        latest = names.name_event(case_id, variant, index - 1) if index else None
        return {
            "record_type": "summary_event",
            "event_index": index,
            "event_id": names.name_event(case_id, variant, index),
            "case_id": case_id,
            "variant_id": variant,
            "timestamp": names.format_moment(T0_MS + 1000 * index),
            "start_seq": window[0],
            "end_seq": window[1],
            "schema_ok": True,
            "summary_semantics_text": text,
            "summary_ctu": names.count_ctu(text),
            "trigger_type": "turn_end" if variant == "V1" else "buffer_agent",
            "summary_history_event_ids": [],
            "summarizer_input_hash": digest_bytes(b""),
            "limits_ok": True,
            "failure_mode": None,
            "latest_summary_event_id": latest,
            "llm_usage": {"prompt_ctu": 100, "completion_ctu": 20},
            "latency_ms": 100 * (index + 1),
            **more,
        }

    def log_path(self, case_id: str, variant: str) -> Path:
        return self.runs / variant / names.name_run_file(case_id)

    def write_log(self, case_id: str, variant: str, records: Sequence[Mapping[str, Any]]) -> Path:
        path = self.log_path(case_id, variant)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(packed(records))
        return path

    def add_log(self, case_id: str, variant: str, texts: Sequence[str], **meta: Any) -> Path:
        """A log in which each summary looks at the deltas of one turn of three, the last at all."""
        windows = [(1 + 5 * at, 3 + 5 * at) for at in range(len(texts))]
        if windows:
            start, end = windows[-1]
            windows[-1] = start, max(end, self.last_seqs[case_id.removesuffix(".trace")])
        gate = [self.flush(case_id, variant, at, end) for at, (_, end) in enumerate(windows)]
        looks = [self.decision(case_id, variant, at, end) for at, (_, end) in enumerate(windows)]
        events = [
            self.event(case_id, variant, at, text, window)
            for at, (text, window) in enumerate(zip(texts, windows, strict=True))
        ]
        has_gate = variant != "V1"
        records = (*(gate if has_gate else ()), *(looks if has_gate else ()), *events)
        return self.write_log(case_id, variant, [self.meta(case_id, variant, **meta), *records])


LEXICON = (
    {"id": "T:1", "name": "fever"},
    {"id": "T:2", "name": "cough", "aliases": ["coughing"]},
    {"id": "T:3", "name": "chest pain"},
    {"id": "T:4", "name": "sepsis"},
)


def small_world(folder: Path, cases: int = 4) -> World:
    """Cases in which two doctors name two or three findings, logged under V0 and V1."""
    world = World(folder)
    for at in range(cases):
        more = "and chest pain." if at % 2 else "and rest."
        turns = (
            ("doctor0", ("I see fe", "ver, ", "plain. ")),
            ("doctor1", ("A cough ", "too ", more)),
        )
        world.add_trace(f"case-{at}", turns)
    world.write_manifest()
    for at in range(cases):
        world.add_log(f"case-{at}", "V0", ("Fever.", "Cough, fever and sepsis."))
        world.add_log(f"case-{at}", "V1", ("Fever.", "Cough and chest pain."))
    lexicon = b"".join(names.write_compact_json(entry) + b"\n" for entry in LEXICON)
    (folder / "lexicon.jsonl").write_bytes(lexicon)
    return world
