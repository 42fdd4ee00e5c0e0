"""The import contracts cover every place that they should."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_feature_with_tables_has_a_contract_for_them() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    protected = {
        module
        for name in contracts.sections()
        for module in contracts[name].get("protected_modules", "").split()
    }
    files = (ROOT / "src" / "gatemark").rglob("*.py")
    with_tables = [path for path in files if "sa.Table(" in path.read_text(encoding="utf-8")]
    places = {path.parent if path.parent.name == "stores" else path for path in with_tables}
    found = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in places}
    assert found == protected
