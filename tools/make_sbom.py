"""The bill of materials, ``locks/sbom.cdx.json``: ``python tools/make_sbom.py [--check]``.

CycloneDX 1.6, from the lock file alone: names and versions, in a fixed order, without a date, so
that the same lock gives the same bytes. It lists what Gatemark is built and tested with; a wheel of
Gatemark bundles none of it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "locks" / "requirements.lock"
SBOM: Final = ROOT / "locks" / "sbom.cdx.json"
_LINE: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)")


def locked(text: str) -> list[tuple[str, str]]:
    """Names and versions of a lock file, by normalised name; any other line is an error."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise SystemExit(f"{LOCK.name}:{number}: expected name==version, got {line!r}")
        found.append((re.sub(r"[-_.]+", "-", match[1]).lower(), match[2]))
    return sorted(found)


def bill(text: str) -> bytes:
    """The bill of materials of a lock file."""
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
        }
        for name, version in locked(text)
    ]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, text)}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": "gatemark", "name": "gatemark"}
        },
        "components": components,
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def main(arguments: list[str]) -> int:
    """Write the bill, or say whether it is up to date."""
    wanted = bill(LOCK.read_text(encoding="utf-8"))
    if "--check" not in arguments:
        SBOM.write_bytes(wanted)
        return 0
    if SBOM.read_bytes() != wanted:
        print(f"{SBOM.relative_to(ROOT)} is out of date: python tools/make_sbom.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
