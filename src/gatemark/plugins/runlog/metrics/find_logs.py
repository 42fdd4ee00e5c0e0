"""Find the run logs of variants in a folder."""

from __future__ import annotations

from pathlib import Path

from gatemark.core.errors import BadInputError
from gatemark.plugins.runlog.records.names import strip_case_id

RUN_LOG_ENDS = (".jsonl.gz", ".jsonl")


def _has_logs(folder: Path) -> bool:
    """Return whether a folder has files that may be run logs; run summaries are plain JSON."""
    return folder.is_dir() and any(one.name.endswith(RUN_LOG_ENDS) for one in folder.iterdir())


def find_logs(folder: str, variants: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return run-log files by variant and case: ``FOLDER/V0/case-1.jsonl.gz``."""
    place = Path(folder)
    if not place.is_dir():
        raise BadInputError(f"{folder}: expected a folder of run logs")
    found: dict[str, dict[str, str]] = {}
    wanted = variants or tuple(sorted(path.name for path in place.iterdir() if _has_logs(path)))
    for variant in wanted:
        for path in sorted((place / variant).glob("*.jsonl*")):
            end = next((end for end in RUN_LOG_ENDS if path.name.endswith(end)), None)
            if end is None:
                continue
            case = strip_case_id(path.name.removesuffix(end))
            if case in found.setdefault(variant, {}):
                raise BadInputError(f"{path}: is a second log of {case} under {variant}")
            found[variant][case] = str(path)
        if not found.get(variant):
            raise BadInputError(f"{place / variant}: holds no run logs")
    if not found:
        raise BadInputError(f"{folder}: holds no run logs (expected V0/case-….jsonl.gz)")
    return found
