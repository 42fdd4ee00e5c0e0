"""``gatemark lint``: find errors that would stop a pack, and weaknesses of its verdict.

Nothing of the pack runs: modules are parsed but not imported, and targets are not called.
"""

from gatemark.packs.lint.lint import lint_pack
from gatemark.packs.lint.report import LintReport

__all__ = ["LintReport", "lint_pack"]
