"""Count the modules and folders of Gatemark that a command walks through.

    python tools/journey_modules.py
    python tools/journey_modules.py --list "score agreement"
    python tools/journey_modules.py --check

A module counts when at least one of its functions is entered while the command runs. Class bodies
and module bodies are not functions, and a call that is made while some module of Gatemark is being
imported does not count: importing is not walking. A folder is a package directly under
``gatemark``. Counted this way the tree of layers had 52 modules in 12 folders for
``score agreement``, 91 in 13 for ``run`` and 61 in 11 for ``score advisory``.

Every command runs in a process of its own, over small files that are written for it.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Journey(NamedTuple):
    """A command, the files it needs, and the most modules and folders it may walk through."""

    name: str
    prepare: Callable[[Path], list[str]]
    most_modules: int
    most_folders: int


class Walked(NamedTuple):
    """What one command walked through: modules as paths below the package."""

    exit_code: int
    modules: tuple[str, ...]

    @property
    def folders(self) -> tuple[str, ...]:
        """The packages directly under Gatemark; a module of its own has none."""
        return tuple(sorted({name.split("/")[0] for name in self.modules if "/" in name}))


def _pairs(folder: Path) -> list[str]:
    """Forty judged answers with all four labels and a few disagreements."""
    labels = ("VALID", "REJECT", "NOT_IN_CONTEXT", "ABSTAIN")
    lines = []
    for number in range(40):
        scholar = labels[number % 4 if number % 8 else 0]
        auditor = labels[(number + (number % 13 == 0)) % 4 if number % 8 else 0]
        opinions = {"scholar": {"label": scholar}, "auditor": {"label": auditor}}
        lines.append({"qid": f"Q{number:03}", **opinions})
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return ["score", "agreement", "--pairs", str(path)]


def _pack(folder: Path) -> list[str]:
    """The starter pack, with a baseline that was recorded."""
    _gatemark(folder, "init", "pack")
    pack = folder / "pack"
    rows = [json.loads(line) for line in (pack / "data" / "golden.jsonl").open(encoding="utf-8")]
    samples = [
        {"schema": "gatemark.sample/1", "id": row["id"], "output": row["target"], "scores": {}}
        for row in rows
    ]
    recorded = "".join(json.dumps(sample) + "\n" for sample in samples)
    (pack / "baseline.jsonl").write_text(recorded, encoding="utf-8")
    text = (pack / "pack.yaml").read_text(encoding="utf-8")
    lines = [
        "  baseline: {recorded: baseline.jsonl}" if line.startswith("  baseline:") else line
        for line in text.splitlines()
    ]
    (pack / "pack.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["run", str(pack / "pack.yaml"), "--store", str(folder / "store")]


def _decision(folder: Path) -> list[str]:
    """One decision of an advisory service that agrees with its fixture."""
    path = folder / "decisions.jsonl"
    path.write_text(json.dumps(_DECISION) + "\n", encoding="utf-8")
    return ["score", "advisory", str(path)]


_CLOSED = (
    "can_route_atlas",
    "can_write_memory",
    "can_execute_tools",
    "can_restart_services",
    "can_send_outbound",
    "can_scan_private_roots",
    "can_mutate_vector_store",
    "can_post_advisory_event",
    "can_change_gateway_config",
)
_DECISION: dict[str, Any] = {
    "schema_version": "npu_advisory_decision_v1",
    "decision_id": "01M7JBAP01EWNVWTDGFJ5W6SE3",
    "timestamp": "2026-11-16T14:14:12.326Z",
    "source": {
        "kind": "fixture",
        "fixture_id": "context_sufficient_context_003",
        "fixture_set": "npu_advisory_eval_v1",
        "artifact_ref": "01M7JBANZX6NCRD1CGDE3J9XQQ",
        "content_hash": "sha256:" + "a5b630e4" * 8,
        "privacy_class": "synthetic",
    },
    "service": {
        "name": "openvino_context_gate",
        "endpoint": "gateway/v1/advise",
        "mode": "dry_run",
        "model": "gatemark-reference-softmax/CPU/f32",
    },
    "input_class": "context_gate",
    "recommendation": {
        "label": "no_action",
        "severity": "none",
        "reasons": ["model_says_no_action", "model_confident"],
        "evidence_refs": ["payload:passages", "payload:question"],
        "raw_output_ref": None,
    },
    "confidence": {
        "score": 0.97,
        "bucket": "very_high",
        "bucket_rule": "v1_default",
        "calibrated": False,
    },
    "authority_flags": {
        **dict.fromkeys(_CLOSED, False),
        "requires_human_approval": True,
        "advisory_only": True,
    },
    "allowed_actions": ["record_metric", "compare_with_expected_label", "include_in_digest"],
    "actual_action": {
        "kind": "dry_run_reported",
        "performed": False,
        "performed_by": "harness",
        "side_effects": [],
    },
    "human_or_atlas_decision": {
        "source": "fixture_expected",
        "label": "no_action",
        "severity": "none",
        "confidence": None,
        "decision_ref": "context_sufficient_context_003",
        "timestamp": None,
    },
    "outcome": {
        "comparison": "agree",
        "error_type": None,
        "human_review_required": False,
        "promotion_blocker": False,
    },
    "npu_proof": {"proof_mode": "unavailable", "inference_ran": True, "proof_ok": None},
    "latency": {"total_ms": 2.6, "service_ms": 0.9, "queue_ms": 0.003, "timeout": False},
    "fallback": {"occurred": True, "kind": "cpu", "reason": "npu_absent", "expected": True},
    "privacy": {
        "payload_logged": False,
        "redaction": "metadata_only",
        "retention": "local_audit",
        "contains_private_payload": False,
    },
    "notes": ["case:normal", "proof:ran_on_cpu"],
}

JOURNEYS = (
    Journey("score agreement", _pairs, 30, 7),
    Journey("run", _pack, 55, 9),
    Journey("score advisory", _decision, 35, 7),
)


# In the process of the command


def _walk(arguments: Sequence[str]) -> Walked:
    """Run a command in this process and note every module that it enters."""
    # What is imported before the hook is set is the same for every command.
    import gatemark  # noqa: PLC0415
    from gatemark.cli.main import main  # noqa: PLC0415

    package = str(Path(gatemark.__file__).parent) + os.sep
    done: set[CodeType] = set()
    entered: set[str] = set()

    def hook(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in done:
            return
        if not code.co_filename.startswith(package) or not code.co_flags & inspect.CO_OPTIMIZED:
            done.add(code)
        elif not _is_importing(frame, package):
            done.add(code)
            entered.add(code.co_filename.removeprefix(package))

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        exit_code = main(list(arguments))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Walked(exit_code, tuple(sorted(entered)))


def _is_importing(frame: FrameType, package: str) -> bool:
    above: FrameType | None = frame
    while above is not None:
        code = above.f_code
        if code.co_name == "<module>" and code.co_filename.startswith(package):
            return True
        above = above.f_back
    return False


# In the process that counts


def measure(journey: Journey) -> Walked:
    """Walk one journey in a fresh process."""
    with tempfile.TemporaryDirectory(prefix="journey-") as name:
        folder = Path(name)
        arguments = journey.prepare(folder)
        found = folder / "walked.json"
        command = [sys.executable, __file__, "--into", str(found), "--"]
        subprocess.run(
            [*command, *arguments], cwd=ROOT, env=_environment(), check=True, capture_output=True
        )
        walked = json.loads(found.read_text(encoding="utf-8"))
    return Walked(walked["exit_code"], tuple(walked["modules"]))


def _gatemark(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "gatemark", *arguments]
    subprocess.run(command, cwd=folder, env=_environment(), check=True, capture_output=True)


def _environment() -> dict[str, str]:
    """The variables of a command: the source of this tree first, whatever else is installed."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}


def _table(found: Sequence[tuple[Journey, Walked]]) -> str:
    lines = ["| command | modules | at most | folders | at most |", "|---|---|---|---|---|"]
    for journey, walked in found:
        lines.append(
            f"| `{journey.name}` | {len(walked.modules)} | {journey.most_modules} "
            f"| {len(walked.folders)} | {journey.most_folders} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; with ``--check`` 1 when a journey is longer than it may be."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="fail when a journey is too long")
    parser.add_argument("--list", metavar="COMMAND", help="print the modules of one journey")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.into is not None:
        walked = _walk(options.command)
        document = {"exit_code": walked.exit_code, "modules": walked.modules}
        options.into.write_text(json.dumps(document), encoding="utf-8")
        return 0
    wanted = [j for j in JOURNEYS if options.list in (None, j.name)]
    if not wanted:
        parser.error(f"unknown command {options.list!r}; known: {[j.name for j in JOURNEYS]}")
    found = [(journey, measure(journey)) for journey in wanted]
    if options.list is not None:
        print("\n".join(found[0][1].modules))
        return 0
    print(_table(found))
    too_long = any(
        len(walked.modules) > journey.most_modules or len(walked.folders) > journey.most_folders
        for journey, walked in found
    )
    return 1 if options.check and too_long else 0


if __name__ == "__main__":
    sys.exit(main())
