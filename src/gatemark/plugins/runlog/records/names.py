"""How things in run logs are named and hashed, and the size of a text in CTU.

Every id is derived from the case, the variant and an index, or from the hashes of the inputs.
Nothing here reads a clock or a random number, so the same inputs have the same names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes
from gatemark.core.errors import InvalidValueError

SHORT: Final = 8
UNKNOWN_COMMIT: Final = "unknown"
TRACE_SUFFIX: Final = ".trace"
TRACE_FILE_ENDS: Final = (".trace.jsonl.gz", ".trace.jsonl")
_NO_COMMIT: Final = "0" * SHORT
_SLUG_LENGTH: Final = 12
_FILE_STRANGERS: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HEX: Final = re.compile(r"[0-9a-f]{8}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE_MS: Final = 60_000


def count_ctu(text: str) -> int:
    """Return the size of a text in CTU: a quarter of its characters, rounded up."""
    return (len(text) + 3) // 4


def hash_text(text: str) -> str:
    """Return the hash of a text's UTF-8 bytes."""
    return digest_bytes(text.encode("utf-8", "surrogatepass"))


def write_compact_json(value: object) -> bytes:
    """Return JSON with sorted keys, no spaces and only ASCII, for hashes of configurations."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def hash_json(value: object) -> str:
    """Return the hash of a value's compact JSON."""
    return digest_bytes(write_compact_json(value))


def shorten_hash(digest: str) -> str:
    """Return the first eight digits of a hash, without its prefix."""
    return digest.removeprefix(DIGEST_PREFIX)[:SHORT]


def name_event(case_id: str, variant_id: str, index: int) -> str:
    """Return the name of a summary event."""
    return f"{case_id}-{variant_id}-se-{index:03d}"


def name_decision(case_id: str, variant_id: str, index: int) -> str:
    """Return the name of a buffer decision."""
    return f"{case_id}-{variant_id}-bd-{index:03d}"


def name_events(
    case_ids: Iterable[str], variant_ids: Iterable[str], indices: Iterable[int]
) -> list[str]:
    """Return the names of many summary events."""
    rows = zip(case_ids, variant_ids, indices, strict=True)
    return [f"{case_id}-{variant_id}-se-{index:03d}" for case_id, variant_id, index in rows]


def name_decisions(
    case_ids: Iterable[str], variant_ids: Iterable[str], indices: Iterable[int]
) -> list[str]:
    """Return the names of many buffer decisions."""
    rows = zip(case_ids, variant_ids, indices, strict=True)
    return [f"{case_id}-{variant_id}-bd-{index:03d}" for case_id, variant_id, index in rows]


def strip_case_id(name: str) -> str:
    """Return a case id without the ``.trace`` suffix that some logs kept."""
    return name.removesuffix(TRACE_SUFFIX)


def name_trace_file(case_id: str) -> str:
    """Return the name of the trace file of a case."""
    return _FILE_STRANGERS.sub("-", case_id) + TRACE_FILE_ENDS[0]


def find_case_of_trace_file(name: str) -> str | None:
    """Return the case of a trace's file name; None for other files."""
    for end in TRACE_FILE_ENDS:
        if name.endswith(end):
            return name.removesuffix(end)
    return None


def name_run_file(case_id: str) -> str:
    """Return the name of the run log file of a case."""
    return f"{case_id}.jsonl.gz"


def hash_decoding(decoding: Mapping[str, object]) -> str:
    """Return the hash of a model's four sampling settings; absent ones are null."""
    fields = ("max_tokens", "seed", "temperature", "top_p")
    return hash_json({field: decoding.get(field) for field in fields})


def name_mas_run(
    *, mac_commit: str, model: str, decoding: Mapping[str, object], case_list_hash: str
) -> str:
    """Return the name of one campaign of trace generation."""
    slug = "".join(sign for sign in model.lower() if sign not in "-. ")[:_SLUG_LENGTH]
    slug = re.sub(r"[^a-z0-9_]", "_", slug)
    parts = (mac_commit[:SHORT], slug, shorten_hash(hash_decoding(decoding)))
    return "_".join(("mas", *parts, shorten_hash(case_list_hash)))


def name_dataset(*, mac_commit: str, decoding: Mapping[str, object], case_list_hash: str) -> str:
    """Return the name of a set of traces."""
    decoding8 = shorten_hash(hash_decoding(decoding))
    return f"exaid_traces_{mac_commit[:SHORT]}_{decoding8}_{shorten_hash(case_list_hash)}"


def name_eval_run(trace_dataset_hash: str, code_commit: str = UNKNOWN_COMMIT) -> str:
    """Return the name of one evaluation of a set of traces; the same for every variant."""
    commit = code_commit[:SHORT].lower()
    return f"eval-{shorten_hash(trace_dataset_hash)}-{commit if _HEX.match(commit) else _NO_COMMIT}"


def render_case_list(case_ids: Iterable[str]) -> bytes:
    """Return the file that lists the cases of a campaign."""
    rows = ({"case_id": case_id, "index": index} for index, case_id in enumerate(case_ids))
    return b"".join(write_compact_json(row) + b"\n" for row in rows)


def hash_trace_dataset(
    *, case_list_hash: str, mas_run: str, traces: Iterable[tuple[str, str]]
) -> str:
    """Return the hash of a set of traces: each case with the hash of its uncompressed trace."""
    pairs = sorted([case_id, sha256] for case_id, sha256 in traces)
    return hash_json({"case_list_hash": case_list_hash, "mas_run_id": mas_run, "traces": pairs})


def hash_config(files: Iterable[bytes]) -> str:
    """Return the hash of configuration files, joined in the order of their paths."""
    return digest_bytes(b"".join(files))


def hash_tokengate_config(token_gate: Mapping[str, object]) -> str:
    """Return the hash of a variant's ``components.token_gate``, exactly as in its file."""
    return hash_json(dict(token_gate))


def format_moment(epoch_ms: int) -> str:
    """Return a time as text: UTC with milliseconds and Z."""
    minutes, ms = divmod(epoch_ms, _MINUTE_MS)
    return f"{_format_minute(minutes)}:{ms // 1000:02d}.{ms % 1000:03d}Z"


@lru_cache(maxsize=256)
def _format_minute(minutes: int) -> str:
    """Return a minute since 1970 as text; cached, because a trace spans few minutes."""
    try:
        moment = _EPOCH + timedelta(minutes=minutes)
    except OverflowError as error:
        raise InvalidValueError("a moment must lie between the years 1 and 9999") from error
    return moment.replace(tzinfo=None).isoformat(timespec="minutes")
