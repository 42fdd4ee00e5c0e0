"""Which versions a result was made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import gatemark

PACKAGES = ("gatemark", "msgspec", "numpy", "scipy", "rfc8785")


def runtime_versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that numbers come from."""
    versions = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for package in PACKAGES:
        if package == "gatemark":
            # What runs counts, not what was installed before the source changed.
            versions[package] = gatemark.__version__
            continue
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions
