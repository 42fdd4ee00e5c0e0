"""Every parameter of the command table that names a file, with a command that reads a good one.

``READINGS`` has good command lines. Which files they read is watched, not listed, so that a bomb
can stand in for each of them. A parameter that no reading uses and that looks as if it named a file
is ``unread``, which a test refuses.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import click
from tests.chaos.guarded import guarded
from tests.chaos.seeds import ADVISORY, CASES, DRIFT, POINTS, RELEASE, SCHEDULES, WAIVERS, furnish
from tests.ledger.listed import write_everything
from tests.release.attribution.test_attribute_command import decision, plan
from tests.samples.importers import peer_shapes

from gatemark import __file__ as package_file
from gatemark.cli.main import gatemark as root
from gatemark.cli.main import main as gatemark
from gatemark.ledger.stores.folder import open_sqlite

Rows = list[dict[str, Any]]
CASE_LIST = [{"case_id": f"case-{n:03}"} for n in range(1, 4)]
FIXTURES: Rows = [
    {
        "fixture_id": f"night_00{n}",
        "input_class": "cron_n8n_event",
        "case": "backup",
        "kind": "normal",
        "privacy_class": "synthetic",
        "payload": {"status": "success", "message": f"backup {n} done"},
        "expected": {"label": "suppress", "severity": "info"},
    }
    for n in (1, 2)
]
LABELS: Rows = [
    {
        "fixture_id": "night_002",
        "source": "human_label",
        "label": "suppress",
        "severity": "info",
    }
]
SAMPLES: Rows = [
    {
        "schema": "gatemark.sample/1",
        "id": f"q{n:03}",
        "input": f"question {n}",
        "output": "yes",
        "target": "yes",
        "confidence": 0.5 + n % 50 / 100,
        "scores": {"exact": float(n * 7919 % 100 < 50 + (n % 50) * 0.4)},
    }
    for n in range(900)
]
SHADOWED: Rows = [
    {
        "input_class": "cron_n8n_event",
        "privacy_class": "non_private",
        "payload": {"status": "success", "message": "backup done"},
        "decision": {"source": "human_label", "label": "suppress", "severity": "info"},
    }
]
GOLD: Rows = [{"id": "g1", "input": "1 + 1", "better": "2", "worse": "3"}]
WORDS: Rows = [{"id": "W1", "name": "fever", "aliases": ["high temperature"]}]
OIDC = """
gatemark_oidc: 1
issuer: http://127.0.0.1:9
client_id: g
client_secret_file: secret.txt
"""
OVERHEAD = """
gatemark_overhead: 1
target: {python: "numpy_lm:build"}
seeds: {python: 7, numpy: 7, bootstrap: 7}
out: arms
"""
RULES = """
name: desk
version: '5'
rules: [{id: r, applies_to: {name: w}, numbers_from_sources: true}]
"""


READINGS: tuple[str, ...] = (
    "validate said.jsonl --schema schema.json",
    "import log.json -o out.jsonl",
    "compare said.jsonl told.jsonl",
    "score advisory advisory.jsonl --policy advisory.yaml --expected-ids ids.txt"
    " --waivers waivers.yaml",
    "score advisory advisory.jsonl --fixtures fixtures --history dry-run/runs",
    "score agreement --pairs pairs.jsonl --labels own-labels.yaml --expected-ids ids.txt"
    " --waivers waivers.yaml",
    "score agreement --scholar ada.jsonl --auditor bo.jsonl --validator cy=cy.jsonl",
    "score agreement --table table.csv",
    "score calibration samples.jsonl",
    "score overhead --bare bare.jsonl --guarded guarded.jsonl --costs costs.json --policy ci.yaml",
    "score overhead --bare bare.jsonl --guarded guarded.jsonl --noise noise.jsonl"
    " --repeat repeat.jsonl",
    "score preference votes.jsonl",
    "score runlog data/metrics/per_case.metrics.jsonl --expected-ids ids.txt"
    " --waivers waivers.yaml",
    "overhead run overhead.yaml --policy ci.yaml",
    "overhead verify arms/report.json --bare arms/bare.jsonl --guarded arms/guarded.jsonl"
    " --noise arms/noise.jsonl --repeat arms/repeat.jsonl --costs arms/costs.json --policy ci.yaml",
    "init new --from promptfoo promptfoo.yaml",
    "init new --from inspect log.json",
    "lint pack.yaml",
    "run pack.yaml --waivers waivers.yaml",
    "run pack.yaml --candidate said.jsonl --baseline told.jsonl",
    "gate RESULT --pack pack.yaml --waivers waivers.yaml",
    "view log.json --no-open",
    "comment result.json",
    "asset add triage@2.0.0 --kind prompt --file prompt.txt --schema schema.json --actor ann",
    "asset pack triage pack.yaml --actor olu",
    "shadow push triage@1.0.0 periods.jsonl --actor eve",
    "canary push triage windows.jsonl --actor eve",
    "policy adopt release.yaml --actor root",
    "policy check release.yaml",
    "review attribution ATTRIBUTION --dataset rows.jsonl --rule-backlog backlog.jsonl --actor olu",
    "review create new --candidate said.jsonl --baseline told.jsonl --gold gold.jsonl --actor olu",
    "review labels create new said.jsonl --label a --label b --source x --actor olu",
    "attribute decision.json --replay-plan replay.yaml --runs decisions.jsonl --rules rules.yaml",
    "ledger checkpoint --signing-key key",
    "ledger export out --signing-key key",
    "ledger keygen key2 --signer-command true --public-key key.pub",
    "ledger prove 3 --checkpoint checkpoint.txt",
    "ledger prove --since checkpoint.txt",
    "ledger prove --check proof.json --key key.pub",
    "ledger rotate key2 --signing-key key",
    "ledger rotate key2 --lost x --new-signer-command true --public-key key.pub",
    "ledger verify --key key.pub --since checkpoint.txt",
    "ledger verify exported",
    "store restore backup.tar.zst --store other",
    "runlog traces --dry-run --config traces.yaml",
    "runlog traces --dry-run --dataset-config cases.yaml",
    "runlog traces --dry-run --case-list cases.jsonl",
    "runlog manifest data/traces --out lists",
    "runlog validate data/traces --manifest MANIFEST --traces data/traces",
    "runlog validate data/runs",
    "runlog migrate data/runs --out migrated",
    "runlog replay TRACE",
    "runlog run --traces data/traces --variant V0 --manifest MANIFEST --output new -j 1"
    " --configs configs --extractor words.jsonl --stoplists data/stoplists",
    "runlog run --traces data/traces --variant V3 --output new -j 1 --v3-report report.json",
    "runlog run --traces data/traces --variant V0 --output new -j 1 --model answers.jsonl",
    "runlog run --traces data/traces --variant V0 --output new -j 1 --buffer-model answers.jsonl",
    "runlog run --traces data/traces --variant V0 --output new -j 1 --summarizer-model model.yaml",
    "runlog metrics --runs data/runs --traces data/traces --manifest MANIFEST --configs configs"
    " --lexicon words.jsonl --stoplists data/stoplists --out new -j 1",
    "runlog stoplists --traces data/traces --lexicon words.jsonl --out new",
    "runlog errors --metrics data/metrics/per_case.metrics.jsonl --runs data/runs"
    " --traces data/traces --concepts --lexicon words.jsonl --stoplists data/stoplists --out new",
    "advisory run --mode offline_fixture --service all=recorded:advisory.jsonl --out new"
    " --fixtures fixtures.jsonl --labels labels.jsonl --policy advisory.yaml",
    "advisory run --service cron_n8n_event=script:true --runs 1 --out new --fixtures fixtures.jsonl"
    " --busy-counter busy.txt",
    "advisory shadow shadowed.jsonl --service all=script:true --out new"
    " --labels labels.jsonl --policy advisory.yaml",
    "advisory shadow shadowed.jsonl --service cron_n8n_event=script:true --out new"
    " --busy-counter busy.txt",
    "advisory trend dry-run --policy advisory.yaml",
    "advisory diff advisory.jsonl advisory.jsonl --policy advisory.yaml",
    "advisory lint fixtures.jsonl",
    "advisory queue advisory.jsonl --fixtures fixtures.jsonl -o out.jsonl",
    "advisory queue advisory.jsonl --shadow shadowed.jsonl -o out.jsonl",
    "drift push points.jsonl --actor olu",
    "drift derive --run-log RUNLOG --asset triage",
    "drift derive --decisions advisory.jsonl",
    "drift derive --points advisory=advisory.jsonl",
    "drift probe --policy drift.yaml --alerts alerts.yaml",
    "drift status --policy drift.yaml",
    "drift report triage -o out.html --policy drift.yaml",
    "drift policy --policy drift.yaml",
    "drift metrics --policy drift.yaml",
    "drift events --policy drift.yaml",
    "calibration apply refit/calibration_map.json samples.jsonl -o out.jsonl",
    "calibration refit samples.jsonl --out new",
    "schedule list --schedules schedules.yaml",
    "schedule run --ticks 1 --schedules schedules.yaml --alerts alerts.yaml",
    "schedule tick --schedules schedules.yaml --alerts alerts.yaml",
    "serve --port 0 --oidc oidc.yaml --packs packs",
    "serve --port 0 --tls-cert cert.pem --tls-key cert.key",
)
SERVERS = ("serve", "view")
SEEN = "readings.json"
SCENE = "chaos-scene"
"""The scene that the tests share."""
OUTPUTS = frozenset(
    {"-o", "--output", "--out", "--record", "--manifests", "--compat", "--backup", "--sarif"}
)
"""Parameters that name what is written."""
NEW_FILES = frozenset({"init folder", "demo folder", "ledger export folder", "store backup file"})
FILE_LIKE = re.compile(r"FILE|DIR\b|FOLDER|SAMPLES|PUB\b|CHECKPOINT|EXPORT|DECISIONS|INPUTS|MAP\b")
FILE_NAMES = frozenset(
    {
        *("files", "file", "base", "cand", "config", "report", "pack", "samples", "map_file"),
        *("decision", "fixtures", "folder", "before", "after", "paths", "traces", "decisions"),
        *("busy_counter", "buffer_model", "summarizer_model", "v0_run_log"),
    }
)


ELSEWHERE = frozenset(
    {
        *("review create --pack", "advisory gateway --busy-counter", "serve --schedules"),
        *("serve --drift-policy", "serve --signing-key"),
    }
)
"""The name of a pack; and files that a running server reads, by the readers of other commands."""
NOT_AT_ONCE = {("review attribution", "rows.jsonl"), ("review attribution", "backlog.jsonl")}
"""Read once a proposal was accepted; the decision of the scene has none."""


class Reading(NamedTuple):
    """A good command line and the files that it reads, by their place in the scene."""

    words: tuple[str, ...]
    files: tuple[str, ...]


def commands(group: click.Group = root, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command of the table, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        place = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from commands(command, place)
        else:
            yield place, command


def text_parameters() -> Iterator[tuple[str, click.Parameter]]:
    """Every parameter that takes a text, with the words of its command."""
    no_text = (click.Choice, click.types.BoolParamType)
    numbers = (click.types.IntParamType, click.types.FloatParamType)
    for place, command in commands():
        for parameter in command.params:
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            if not is_flag and not isinstance(parameter.type, (*no_text, *numbers)):
                yield place, parameter


def unread() -> list[str]:
    """The parameters that look as if they named a file and that no reading uses."""
    found = []
    for place, parameter in text_parameters():
        looks = parameter.name in FILE_NAMES or FILE_LIKE.search(parameter.metavar or "")
        if not looks or OUTPUTS & set(parameter.opts) or f"{place} {parameter.name}" in NEW_FILES:
            continue
        lines = [one.split() for one in READINGS if f"{one} ".startswith(f"{place} ")]
        is_option = isinstance(parameter, click.Option)
        if not any(not is_option or set(parameter.opts) & set(words) for words in lines):
            found.append(f"{place} {parameter.opts[0]}")
    return sorted(set(found) - ELSEWHERE)


def scene(folder: Path) -> None:
    """Write the good files and a store with something of everything."""
    furnish(folder)
    lines: dict[str, Rows] = {
        "samples.jsonl": SAMPLES,
        "fixtures.jsonl": FIXTURES,
        "labels.jsonl": LABELS,
        "shadowed.jsonl": SHADOWED,
        "windows.jsonl": POINTS,
        "periods.jsonl": POINTS,
        "points.jsonl": POINTS,
        "backlog.jsonl": POINTS,
        "gold.jsonl": GOLD,
        "words.jsonl": WORDS,
        "cases.jsonl": CASE_LIST,
        "answers.jsonl": [{"prompt": "x", "answer": "y"}],
        "decisions.jsonl": [decision(id="d2")],
        "votes.jsonl": [{"item": "i", "reviewer": "r", "choice": "tie", "first": "baseline"}],
    }
    for name, rows in lines.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "noise.jsonl").write_bytes((folder / "bare.jsonl").read_bytes())
    (folder / "repeat.jsonl").write_bytes((folder / "guarded.jsonl").read_bytes())
    documents: dict[str, object] = {
        "schema.json": {"type": "object"},
        "log.json": peer_shapes.inspect_log(),
        "own-labels.yaml": {"extra_keys": ["more"]},
        "costs.json": {"schema": "gatemark.overhead-costs/1", "bare": [1.0], "guarded": [1.1]},
        "report.json": {"a": 1},
        "result.json": {"schema": "gatemark.result/1", "id": "a"},
        "decision.json": decision(),
        "advisory.yaml": ADVISORY,
        "waivers.yaml": WAIVERS,
        "ci.yaml": {"profile": "ci"},
        "promptfoo.yaml": {"prompts": ["{{x}}"], "providers": ["echo"], "tests": []},
        "release.yaml": RELEASE,
        "drift.yaml": DRIFT,
        "schedules.yaml": SCHEDULES,
        "cases.yaml": CASES,
        "traces.yaml": {"cases": 3, "seed": 7},
        "model.yaml": {"python": "app:answer"},
        "alerts.yaml": {
            "gatemark_alerts": 1,
            "sinks": [{"kind": "file", "name": "log", "path": "sent.jsonl"}],
        },
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    texts = {
        "overhead.yaml": OVERHEAD,
        "rules.yaml": RULES,
        "oidc.yaml": OIDC,
        "ids.txt": "Q0\nQ1\n",
        "secret.txt": "hush",
        "prompt.txt": "Say yes.",
        "busy.txt": "5\n",
        "cert.pem": "x",
        "cert.key": "x",
        "table.csv": "item,ada,bo\na,yes,no\nb,no,no\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name in ("ada", "bo", "cy"):
        said = [{"qid": f"Q{n}", "label": "VALID", "reason": f"ok for {name}"} for n in range(3)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    plan(folder, None)
    examples = Path(__file__).resolve().parents[2] / "examples"
    shutil.copy(examples / "guard-overhead" / "numpy_lm.py", folder)
    plugins = Path(package_file).parent / "plugins"
    shutil.copytree(plugins / "runlog" / "replay" / "defaults", folder / "configs")
    shutil.copytree(plugins / "advisory" / "fixtures" / "npu_advisory_eval_v1", folder / "fixtures")
    (folder / "packs").mkdir()
    (folder / "packs" / "pack.yaml").write_bytes((folder / "pack.yaml").read_bytes())
    write_everything(str(folder / ".gatemark"), folder)


PREPARED: tuple[str, ...] = (
    "runlog traces --cases 3 --seed 3",
    "runlog run --variant V0 -j 1",
    "runlog metrics -j 1",
    "runlog stoplists --threshold 0.6",
    "ledger keygen key",
    "ledger checkpoint --signing-key key -o checkpoint.txt",
    "ledger export exported --signing-key key",
    "attribute decision.json --seal",
    "store backup backup.tar.zst",
    "calibration refit samples.jsonl --out refit",
    "advisory run --mode offline_fixture --service all=recorded:advisory.jsonl --out dry-run",
    "overhead run overhead.yaml",
)


def prepare(folder: Path) -> dict[str, str]:
    """Make the scene in a folder; gives the names that readings have to be told."""
    scene(folder)
    os.chdir(folder)
    for line in PREPARED:
        ended = _kept(line, folder / "said.txt")
        assert ended in (0, 1, 3), (line, ended)
    _kept("ledger prove 3", folder / "proof.json")
    return names_in(folder)


def names_in(folder: Path) -> dict[str, str]:
    """What readings call by a name, in a scene that is prepared."""
    store = open_sqlite(folder / ".gatemark" / "gatemark.sqlite3")
    results = [name for name, _ in store.results.documents()]
    events = store.events.events()
    sealed = [p["attribution"] for e, p in events if p and e.kind == "attribution_sealed"]
    store.close()
    data = folder / "data"
    found = {
        "MANIFEST": next((data / "manifests").glob("*.manifest.jsonl")),
        "TRACE": min((data / "traces").iterdir()),
        "RUNLOG": min((data / "runs" / "V0").iterdir()),
    }
    files = {name: str(path.relative_to(folder)) for name, path in found.items()}
    return {"RESULT": results[0], "ATTRIBUTION": str(sealed[0]), **files}


def _kept(line: str, output: Path) -> int:
    with output.open("w") as file, redirect_stdout(file), redirect_stderr(file):
        return gatemark(line.split())


def copied(kept: Path, place: Path) -> None:
    """A scene to spoil. What commands write in place is copied, the rest is linked."""
    shutil.copytree(kept, place, copy_function=_linked)
    shutil.rmtree(place / ".gatemark")
    shutil.copytree(kept / ".gatemark", place / ".gatemark")


def _linked(file: str, place: str) -> None:
    try:
        os.link(file, place)
    except OSError:  # The scene lies in another file system.
        shutil.copy2(file, place)


def run_in(place: Path, words: Sequence[str]) -> int:
    os.chdir(place)
    return int(gatemark(list(words)))


def watched(place: Path, words: Sequence[str], seen: Path) -> int:
    """Run a command and write down, as it goes, the files of the place that it opens to read."""

    def watch(event: str, told: tuple[object, ...]) -> None:
        if event not in ("open", "sqlite3.connect") or not isinstance(told[0], str | os.PathLike):
            return
        flags = told[2] if event == "open" else 0
        if not isinstance(flags, int) or flags & os.O_ACCMODE == os.O_WRONLY:
            return
        path = place / str(told[0]).removeprefix("file:").partition("?")[0]
        if path.is_relative_to(place) and path.is_file():
            os.write(noted, f"{path.relative_to(place)}\n".encode())

    os.chdir(place)
    noted = os.open(seen, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.addaudithook(watch)
    if words[0] in SERVERS:
        Thread(target=_end_once_it_serves, daemon=True).start()
    return int(gatemark(list(words)))


def _end_once_it_serves() -> None:
    """End a server of this process as Ctrl-C does, once it has printed its address and answers."""
    while (told := re.search(rb"http://127\.0\.0\.1:(\d+)", os.pread(1, 1 << 16, 0))) is None:
        time.sleep(0.01)
    asked = HTTPConnection("127.0.0.1", int(told[1]))
    asked.request("GET", "/no-such-page")
    asked.getresponse().read()
    asked.close()
    os.kill(os.getpid(), signal.SIGINT)


def readings(kept: Path, names: dict[str, str], seconds: int = 30) -> Iterator[Reading]:
    """Every good command line with the files that it was seen to read, one of each kind."""
    for line in READINGS:
        words = tuple(names.get(word, word) for word in line.split())
        place, seen = kept.parent / "one", kept.parent / "seen"
        copied(kept, place)
        guarded(partial(watched, place, words, seen), seconds)
        opened = [one for one in seen.read_text().split("\n") if (kept / one).is_file()]
        seen.unlink()
        shutil.rmtree(place)
        kinds = {(str(Path(one).parent), Path(one).suffix): one for one in opened}
        named = {one for one in opened if "/" not in one or one in words}
        yield Reading(words, tuple(sorted({*kinds.values(), *named})))


def make_scene(folder: Path) -> None:
    """Make a scene in ``kept`` and write down what was read there; both can be used again."""
    kept = folder / "kept"
    kept.mkdir()
    with contextlib.chdir(kept):
        seen = list(readings(kept, prepare(kept)))
    (folder / SEEN).write_text(json.dumps(seen))


def seen_in(folder: Path) -> list[Reading]:
    """What was read in a scene."""
    read = json.loads((folder / SEEN).read_text())
    return [Reading(tuple(words), tuple(files)) for words, files in read]
