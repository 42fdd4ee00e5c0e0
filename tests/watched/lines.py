"""The lines that are walked: together they bring every command to its end.

First those that prepare the scene and the good lines of the chaos runs, then what these leave out,
then the examples of each command's own help, and every kind of evidence file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import click
from tests.chaos.file_options import OUTPUTS as CHAOS_OUTPUTS
from tests.chaos.file_options import PREPARED as CHAOS_PREPARED
from tests.chaos.file_options import READINGS, SERVERS, commands
from tests.chaos.mutation import spelled
from tests.chaos.seeds import furnish, seeds

PREPARED: tuple[str, ...] = (
    "demo my-demo",
    *CHAOS_PREPARED,
    "run pack.yaml",
    "advisory run --mode offline_fixture --service all=recorded:advisory.jsonl --out sealed --seal",
)
LINES: tuple[str, ...] = (
    "schema gatemark.pair/1",
    "scorers",
    "targets",
    "plugins",
    "doctor",
    "init new-pack --from promptfoo promptfoo.yaml",
    "score runlog data/metrics/per_case.metrics.jsonl",
    "score agreement --pairs many-pairs.jsonl -j 2",
    # Results.
    "list",
    "show PACKED",
    "report PACKED -o result.html -o result.junit.xml -o result.md --sarif result.sarif"
    " --source pack.yaml",
    "comment PACKED",
    "gate PACKED --pack pack.yaml",
    "baseline set release-7 PACKED",
    "baseline accept PACKED --reason known",
    "baseline show release-7",
    "baseline list",
    # Assets and releases.
    "asset list",
    "asset show triage",
    "asset history triage -o history.html",
    "asset waive triage@2.0.0 --gate replay --note x --actor olu",
    "asset service triage --good 996 --total 1000 --start 2026-03-01T08:00:00Z"
    " --end 2026-03-01T08:05:00Z --actor eve",
    "why triage@1.0.0 -o why.html",
    "release triage@2.0.0 --dry-run --actor ann",
    "promote triage@2.0.0 --to evaluating --actor ann",
    "role grant zoe viewer --actor root",
    "role list",
    "policy show",
    "route triage --store live",
    "shadow push triage@1.2.0 shadow.jsonl --actor eve --store live",
    "canary push triage canary.jsonl --actor eve --store live",
    "canary assign triage conversation-8841 --store live",
    "canary show triage --store live",
    "canary tick --store live",
    "approve triage@1.1.0 --to enabled --note seen --actor bob --store live",
    "rollback triage --note complaints --actor olu --store live",
    "asset pause triage@1.0.0 --reason freeze --actor olu --store live",
    "asset resume triage@1.0.0 --actor olu --store live",
    "demote triage --reason wrong --stop --actor olu --store live",
    # Reviews and labels.
    "review status letters",
    "review next notes --actor bob",
    "review vote notes both_good --actor bob",
    "review close notes --early gone --actor olu",
    "review export letters -o votes-of-letters.jsonl",
    "review labels status tone",
    "review labels next unsettled --actor bob",
    "review labels give unsettled q000 good --actor bob",
    "review labels accept tone --actor olu",
    "review labels export tone -o labels-of-tone.jsonl",
    # The ledger and its store.
    "ledger log",
    "ledger resync-clock --reason x",
    "ledger erase pair:letters/3 --reason x",
    "store info",
    "store upgrade",
    # Advisory, drift and schedules.
    "advisory shadow shadowed.jsonl --service cron_n8n_event=script:true --out shadow",
    "advisory diff dry-run/decisions.jsonl dry-run/decisions.jsonl",
    "advisory queue dry-run/decisions.jsonl -o queue.jsonl",
    "advisory packet voice_audio/npu_voice_audio_pipeline --result ADVISED -o packet.md",
    "drift close EPISODE --reason new --actor olu",
    "schedule fire threat --id feed-1",
)
NAMING: dict[str, tuple[str, ...]] = {
    "GITHUB": ("comment PACKED --post github",),
    "HTTP": (
        "run http-pack.yaml",
        "drift probe --alerts alerts-by-http.yaml --now 2026-03-20T00:00:00Z",
        "advisory run --service kanban_hygiene/our_board=HTTP --runs 1 --out board",
    ),
    "POSTGRES": (
        "store restore backup.tar.zst --store POSTGRES",
        "store info --store POSTGRES",
        "store upgrade --store POSTGRES",
        "store backup again.tar.zst --store POSTGRES",
        "ledger verify --store POSTGRES",
        "run pack.yaml --store POSTGRES",
        "asset list --store POSTGRES",
    ),
}
"""Lines that connect to what they, or a file of theirs, name."""
ALONE: tuple[str, ...] = (
    "advisory run --service all=gateway --runs 1 --out by-gateway",
    "score agreement --pairs many-pairs.jsonl -j 2 --engine ray",
)
"""Lines that start servers on this machine and connect to these."""
LONG_LIVED: tuple[str, ...] = (
    "serve --port 0 --packs packs",
    "serve --port 0 --store POSTGRES",
    "view PACKED --no-open",
    "advisory gateway --port 0 --device CPU",
    "schedule run --schedules due.yaml --every 0.05",
)
"""Servers and loops: each is started, asked something and stopped by a signal."""
STAND_INS = {
    "3f2a9c01": "PACKED",
    "sha256:4be0…": "ATTRIBUTION",
    "postgresql://gatemark@db.example/gatemark": "POSTGRES",
    "/var/lib/node_exporter/": "",
}
"""What the examples of helps stand for."""
LEFT_OUT = re.compile(
    r"^(serve(?! --link)|view|advisory gateway|schedule run|demo)\b"  # walked above
    r"|all=gateway|--post github"  # walked above
    r"|--explain"  # ten seconds of simulation
)


OUTPUTS = frozenset({"--store", *CHAOS_OUTPUTS, "--dataset", "--rule-backlog"})
NEW_FILES = ("demo", "init", "ledger export", "ledger keygen", "ledger rotate", "store backup")
"""Commands whose argument is what they write."""
WITHOUT_OPTION = {
    "": ".gatemark",
    "runlog": "data",
    "overhead run": "arms",  # named in overhead.yaml
    "drift probe": "sent.jsonl",  # named in alerts.yaml
    "schedule": "sent.jsonl",
    "init": ".github",  # with --ci github
}
"""What commands write that no word of the line names."""


def outputs(words: Sequence[str]) -> set[str]:
    """The paths below which a line may write: stores and outputs."""
    line = " ".join(words)
    found = {place for command, place in WITHOUT_OPTION.items() if line.startswith(command)}
    found |= {value for option, value in pairwise(words) if option in OUTPUTS}
    return found | {word for word in words[1:] if line.startswith(NEW_FILES)}


def told(line: str, names: dict[str, str]) -> list[str]:
    """The words of a line, with what its names mean."""
    return shlex.split(re.sub(r"\b[A-Z]+\b", lambda found: names.get(found[0], found[0]), line))


def good_lines() -> Iterator[str]:
    """The good lines of the chaos runs, and those that they leave out."""
    yield from (line for line in READINGS if line.split()[0] not in SERVERS)
    yield from LINES


def examples() -> Iterator[str]:
    """The examples of every command's help, without what belongs to a shell."""
    for _, command in commands():
        yield from _examples(command)


def _examples(command: click.Command) -> Iterator[str]:
    text = (command.help or "").replace("\\\n", " ")
    for example in re.findall(r"^\s*gatemark (.*)$", text, re.M):
        line = re.split(r" [>|<] ", example)[0]
        if LEFT_OUT.search(line):
            continue
        for sample, name in STAND_INS.items():
            line = line.replace(sample, name)
        # Few cases and settings go the same ways as many.
        line = re.sub(r"--(cases|subset) \d+", r"--\1 2", line)
        yield line


def evidence(work: Path) -> Iterator[list[str]]:
    """A line for every kind of file that a command reads, over files that are written for it."""
    for number, seed in enumerate(seeds()):
        place = work / f"seed-{number}"
        place.mkdir()
        furnish(place)
        rows = seed.document if seed.is_lines else [seed.document]
        (place / seed.file).write_bytes(b"".join(spelled(row) + b"\n" for row in rows))
        given = (text.replace("@", str(place)) for text in seed.arguments)
        yield [str(place / seed.file) if text == "{}" else text for text in given]
