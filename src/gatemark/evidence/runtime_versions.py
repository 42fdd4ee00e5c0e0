"""The versions of what numbers are computed with."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import gatemark

PACKAGES = ("msgspec", "numpy", "scipy", "rfc8785")


def runtime_versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that numbers come from."""
    versions = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.machine()}",
        # What runs counts, not what was installed before the source changed.
        "gatemark": gatemark.__version__,
    }
    return versions | {package: _read_version(package) for package in PACKAGES}


@cache
def _read_version(package: str) -> str:
    """Return the version of a package; reading it takes milliseconds, so it is read once."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
