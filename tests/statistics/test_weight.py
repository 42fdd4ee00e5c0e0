from __future__ import annotations

import subprocess
import sys

import pytest

LOAD_EVERY_MODULE = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [
    module.name
    for module in pkgutil.walk_packages(package.__path__, f"{sys.argv[1]}.")
    if sys.argv[2] in module.name
]
for name in names:
    importlib.import_module(name)
print(len(names), "scipy.special" in sys.modules, "scipy.stats" in sys.modules)
"""


@pytest.mark.parametrize(
    ("package", "word"), [("gatemark.statistics", ""), ("gatemark.exams", ".measure")]
)
def test_loading_every_module_leaves_scipy_stats_out(package: str, word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD_EVERY_MODULE, package, word],
        capture_output=True,
        text=True,
        check=True,
    )
    module_count, has_special, has_stats = done.stdout.split()
    assert int(module_count) >= 3
    assert (has_special, has_stats) == ("True", "False")
