"""Write the lock file with hashes: what ``pip install --require-hashes`` takes.

Usage: ``python tools/lock_hashes.py [--files FOLDER]``. Without a folder of files that are already
there, pip downloads what the plain lock names. One file per package is named, the one that pip
chooses on this platform.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLAIN = ROOT / "locks" / "requirements.lock"
HASHED = ROOT / "locks" / "requirements.hashes.lock"
WHEEL = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)-.+\.whl")
SOURCE = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.(tar\.gz|zip)")


def normal(name: str) -> str:
    """A name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: Iterable[str]) -> dict[str, str]:
    """The versions of a lock file by normal name."""
    found = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    pairs = (words[0].partition("==") for words in found)
    return {normal(name): version for name, _, version in pairs}


def hashes(folder: Path) -> dict[tuple[str, str], str]:
    """The SHA-256 of every file of a package in a folder, by normal name and version."""
    found = {}
    for path in folder.iterdir():
        named = WHEEL.fullmatch(path.name) or SOURCE.fullmatch(path.name)
        if named:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            found[normal(named["name"]), named["version"]] = digest
    return found


def locked(wanted: dict[str, str], files: dict[tuple[str, str], str], where: str) -> str:
    """The text of the lock; a package without its file ends the work."""
    missing = [f"{name}=={wanted[name]}" for name in wanted if (name, wanted[name]) not in files]
    if missing:
        sys.exit(f"no file for {', '.join(missing)}")
    head = f"# made by tools/lock_hashes.py from requirements.lock, for {where}\n"
    rows = (f"{name}=={at} --hash=sha256:{files[name, at]}\n" for name, at in wanted.items())
    return head + "".join(rows)


def main() -> None:
    """Get the files, and write their hashes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=Path, help="a folder with the files of every package")
    chosen = parser.parse_args()
    wanted = pins(PLAIN.read_text(encoding="utf-8").splitlines())
    where = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    with tempfile.TemporaryDirectory() as new:
        if not chosen.files:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            subprocess.run([*pip, "--requirement", PLAIN, "--dest", new], check=True)
        text = locked(wanted, hashes(chosen.files or Path(new)), where)
    HASHED.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
