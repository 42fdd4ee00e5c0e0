from __future__ import annotations

import subprocess
import sys

import pytest

LOAD_EVERY_MODULE = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [module.name for module in pkgutil.iter_modules(package.__path__)]
for name in names:
    importlib.import_module(f"{sys.argv[1]}.{name}")
print(len(names), "scipy.special" in sys.modules, "scipy.stats" in sys.modules)
"""


@pytest.mark.parametrize("package", ["gatemark.statistics", "gatemark.measures"])
def test_loading_every_module_leaves_scipy_stats_out(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD_EVERY_MODULE, package],
        capture_output=True,
        text=True,
        check=True,
    )
    module_count, has_special, has_stats = done.stdout.split()
    assert int(module_count) >= 3
    assert (has_special, has_stats) == ("True", "False")
