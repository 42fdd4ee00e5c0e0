"""Run the lines of every command one after the other, with a fixed clock and fixed chance."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from tests.chaos.file_options import READINGS, SERVERS, commands
from tests.ci.github_server import TOKEN, github_comments
from tests.docs.transcript import fixed_variables
from tests.forked import Done, Forked
from tests.recordings.transcripts import normalize, quote, shorten
from tests.watched.lines import LINES, LONG_LIVED, PREPARED, examples, told
from tests.watched.places import LOOPBACK, answering
from tests.watched.scene import names

ROOT: Final = Path(__file__).resolve().parents[2]
RECORDED: Final = Path(__file__).with_name("commands")
SCENE: Final = (
    "from tests.watched.scene import write_scene\nwrite_scene(Path(sys.argv[1]), sys.argv[2])"
)
NAMING: Final = ("HTTP", "GITHUB")
"""What is served here; PostgreSQL gives what SQLite gives, which other tests hold."""
OF_THE_MACHINE: Final = ("doctor",)
"""Commands that print what is installed: only their end is kept."""
TEXTS: Final = frozenset(
    {".json", ".jsonl", ".md", ".tsv", ".csv", ".txt", ".xml", ".yaml", ".yml"}
)
PAGES: Final = frozenset({".html", ".svg", ".sarif"})
LARGE: Final = 200_000
FIRST_LINES: Final = 12
"""What is kept of a file that a command wrote; a digest stands for the rest."""
STORES: Final = re.compile(r"(^|/)(\.gatemark|live|other|restored|store|blobs)/|sqlite3|\.png$")
"""Files that other commands show, and whose names are digests."""
MEASURED: Final = re.compile(
    r"(^|/)(costs|report)\.json$|^my-demo/(pack-\w+|why|history)\.(html|md)$"
)
"""Files with times that were measured: only their names are kept."""


class Recorded(NamedTuple):
    """A line and what it gave, as text."""

    command: str
    text: str


class Walk:
    """The lines that ran so far, in a folder with the scene.

    ``source`` is the folder of another copy of the package.
    """

    def __init__(self, folder: Path, http: str, github: str, source: Path | None = None) -> None:
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)
        self.names = {"HTTP": http, "GITHUB": github}
        self._counter = folder / "counter"
        self._source = source
        self._environment = {
            **fixed_variables(self._counter),
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "GITHUB_API_URL": github,
            "GITHUB_REPOSITORY": "acme/help-desk",
            "GITHUB_EVENT_PATH": str(self.work / "event.json"),
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_ACTOR": "ann",
        }
        self._folders = {str(self.work): "<folder>", str(folder): "<home>"}
        self._folders |= {str(ROOT): "<source>", http: "http://<http>", github: "http://<github>"}
        self._seen: Counter[str] = Counter()
        self._commands = sorted((name for name, _ in commands()), key=len, reverse=True)

    def write_scene(self) -> None:
        """Write the files and stores that lines work on."""
        code = f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(ROOT)!r})\n{SCENE}"
        done = self.run([str(self.work), self.names["HTTP"]], code=code)
        assert done.returncode == 0, done.stderr.decode()

    def line(self, line: str) -> Recorded:
        """Run a line to its end."""
        before = self._files()
        done = self.run(told(line, self.names), environment=self._environment_of(line))
        return self._record(line, done, before)

    def serving(self, line: str) -> Recorded:
        """Run a server or loop: ask it for a page, if it has any, and stop it."""
        before = self._files()
        running = Forked(
            told(line, self.names),
            folder=self.work,
            only=self._environment_of(line),
            is_heard=True,
        )
        first = running.next_line()
        if address := re.search(r"http://127\.0\.0\.1:(\d+)(/\S+)?", first):
            asked = HTTPConnection(LOOPBACK, int(address[1]))
            asked.request("GET", address[2] or "/")
            asked.getresponse().read()
            asked.close()
        running.send_signal(signal.SIGINT)
        done = running.finish()
        return self._record(line, done._replace(stdout=first.encode()), before)

    def run(
        self,
        words: Sequence[str],
        code: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        """Run a command, or code with words, to its end."""
        only = environment or self._environment
        return Forked(words, folder=self.work, code=code, only=only, source=self._source).finish()

    def _environment_of(self, line: str) -> dict[str, str]:
        """Return the variables of a line, which draws something else each time that it runs."""
        self._seen[line] += 1
        return {**self._environment, "GATEMARK_TEST_LINE": f"{line} {self._seen[line]}"}

    def _record(self, line: str, done: Done, before: Mapping[str, tuple[int, int]]) -> Recorded:
        command = next(one for one in self._commands if f"{line} ".startswith(f"{one} "))
        parts = [f"$ gatemark {line}\nexit {done.returncode}\n"]
        streams = (("stdout", done.stdout), ("stderr", done.stderr))
        for name, data in () if command in OF_THE_MACHINE else streams:
            if text := data.decode(errors="replace"):
                parts.append(f"{name}:\n{quote(shorten(normalize(text, self._folders)))}")
        files = self._files().items()
        # In the order of their texts: names may be digests, which differ from build to build.
        written = [self._written(path) for path, stamp in files if before.get(path) != stamp]
        parts += sorted(written, key=lambda text: normalize(text, self._folders))
        return Recorded(command, normalize("".join(parts), self._folders) + "\n")

    def _written(self, path: str) -> str:
        file = self.work / path
        is_text = file.suffix in TEXTS | PAGES and file.stat().st_size <= LARGE
        if not is_text or MEASURED.search(path):
            return f"wrote {path}\n"
        text = normalize(file.read_text(errors="replace"), self._folders)
        if file.suffix in PAGES:
            # What a page says, not how it is drawn.
            text = re.sub(r"<(style|script)\b.*?</\1>|<[^>]+>", " ", text, flags=re.S)
            text = re.sub(r"\s*\n\s*", "\n", text).strip()
        return f"wrote {path}:\n{quote(shorten(text, FIRST_LINES))}"

    def _files(self) -> dict[str, tuple[int, int]]:
        found = {}
        for folder, _, files in os.walk(self.work):
            for name in files:
                path = Path(folder, name)
                place = str(path.relative_to(self.work))
                if not STORES.search(place):
                    stat = path.stat()
                    found[place] = (stat.st_mtime_ns, stat.st_size)
        return found


def is_served(line: str) -> bool:
    """Whether a line needs nothing that is not here."""
    needs = {"gateway": "openvino", "--engine ray": "ray"}
    is_installed = all(find_spec(part) for word, part in needs.items() if word in line)
    return is_installed and "POSTGRES" not in line and "postgresql:" not in line


def lines() -> Iterator[str]:
    """Every line that ends by itself, after those that prepare the scene."""
    yield from (line for line in READINGS if line.split()[0] not in SERVERS)
    yield from LINES
    yield "comment PACKED --post github"
    yield "run http-pack.yaml"
    yield "drift probe --alerts alerts-by-http.yaml --now 2026-03-20T00:00:00Z"
    yield "advisory run --service kanban_hygiene/our_board=HTTP --runs 1 --out board"
    yield from examples()


def starts_commands(line: str) -> bool:
    """Whether a line starts processes of its own, whose clock is not fixed."""
    return line.startswith("schedule ")


def walk(folder: Path) -> dict[str, str]:
    """Run every line in a folder; gives a text per command, by its name."""
    texts: dict[str, list[str]] = defaultdict(list)
    with answering() as http, github_comments() as github:
        walked = Walk(folder, http, github.url)
        walked.write_scene()
        for line in PREPARED:
            command, text = walked.line(line)
            texts[command].append(text)
        (walked.work / "proof.json").write_bytes(walked.run(["ledger", "prove", "3"]).stdout)
        walked.names |= names(walked.work)
        found = list(filter(is_served, lines()))
        for line in found:
            if not starts_commands(line):
                command, text = walked.line(line)
                texts[command].append(text)
        for line in sorted(filter(is_served, LONG_LIVED), key=starts_commands):
            command, text = walked.serving(line)
            texts[command].append(text)
        for line in filter(starts_commands, found):
            command, text = walked.line(line)
            texts[command].append(text)
    return {name.replace(" ", "-"): "\n".join(found) for name, found in sorted(texts.items())}


def write(texts: Mapping[str, str]) -> None:
    """Write the texts as files, and remove those of commands that are gone."""
    RECORDED.mkdir(exist_ok=True)
    for old in RECORDED.glob("*.txt"):
        if old.stem not in texts:
            old.unlink()
    for name, text in texts.items():
        (RECORDED / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="gm-") as name:
        write(walk(Path(name)))
