"""Which versions a result was made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("gatemark", "msgspec", "numpy", "scipy", "rfc8785")


def runtime_versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that numbers come from."""
    versions = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions
