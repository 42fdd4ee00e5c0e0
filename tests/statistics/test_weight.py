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
print(len(names), *(name for name in sys.modules if name.startswith("scipy.") and "._" not in name))
"""


@pytest.mark.parametrize(
    ("package", "word"), [("gatemark.statistics", ""), ("gatemark.checks", ".measure")]
)
def test_loading_every_module_loads_no_part_of_scipy(package: str, word: str) -> None:
    """Parts of SciPy load when they are used: most commands compute nothing with them."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD_EVERY_MODULE, package, word],
        capture_output=True,
        text=True,
        check=True,
    )
    module_count, *loaded = done.stdout.split()
    assert int(module_count) >= 3
    assert {name.split(".")[1] for name in loaded} <= {"version"}
