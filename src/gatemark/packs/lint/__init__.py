"""``gatemark lint``: find what would stop a pack, and what would make its verdict worth little.

Nothing of the pack runs: modules are parsed and not imported, targets are not called.
"""

from gatemark.packs.lint.journey import lint_pack
from gatemark.packs.lint.report import LintReport

__all__ = ["LintReport", "lint_pack"]
