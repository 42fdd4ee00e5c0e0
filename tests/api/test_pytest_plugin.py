from __future__ import annotations

from pathlib import Path

import pytest
from tests.forked import Forked

from gatemark.packs.init import write_starter

TESTS = """
import pytest

GOOD = {f"q{n}": 1 for n in range(400)}
BAD = {**GOOD, **{f"q{n}": 0 for n in range(80)}}
FEW = {"q1": 1, "q2": 1}

def test_same(gatemark):
    assert gatemark.assert_no_regression(GOOD, baseline=GOOD, margin=0.02).verdict == "pass"

def test_worse(gatemark):
    gatemark.assert_no_regression(BAD, baseline=GOOD, margin=0.02)

def test_few(gatemark):
    gatemark.assert_no_regression(FEW, baseline=FEW, margin=0.02)

@pytest.mark.gatemark(inconclusive="skip")
def test_few_marked(gatemark):
    gatemark.assert_no_regression(FEW, baseline=FEW, margin=0.02)

def test_lost(gatemark):
    lost = dict(list(GOOD.items())[:-1])
    gatemark.assert_no_regression(lost, baseline=GOOD, margin=0.02)
"""
PLUGIN = ("-p", "gatemark.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    # Installed, the plugin loads by its entry point; here it is named, so that it loads once.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(TESTS)
    return pytester


RUN_PYTEST = """
import os, sys, pytest
code = pytest.main(sys.argv[1:])
sys.stdout.flush()
os._exit(code)
"""


def run_pytest(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    """What ``runpytest_subprocess`` does, in a process that does not load Gatemark again."""
    script = project.path.parent / "run_pytest.py"
    script.write_text(RUN_PYTEST)
    done = Forked((*PLUGIN, *words), script=script, folder=project.path).finish()
    printed = (said.decode().splitlines() for said in (done.stdout, done.stderr))
    return pytest.RunResult(done.returncode, *printed, duration=0.0)


def test_pass_fail_and_inconclusive_are_told_apart(project: pytest.Pytester) -> None:
    done = run_pytest(project, "-rA", "--gatemark-reports", "reports")
    done.assert_outcomes(passed=1, failed=3, skipped=1)
    done.stdout.fnmatch_lines(
        [
            "gatemark: fail: *worse by more than the margin*",
            "gatemark: inconclusive: *neither shown nor ruled out*",
            "gatemark: inconclusive: *not on the other side: q399",
        ]
    )
    reports = sorted(path.name for path in (project.path / "reports").iterdir())
    assert len(reports) == 5
    assert all(name.startswith("test_pass_fail") and name.endswith(".md") for name in reports)


def test_inconclusive_may_skip_but_a_failure_never_does(project: pytest.Pytester) -> None:
    done = run_pytest(project, "--gatemark-inconclusive=skip")
    done.assert_outcomes(passed=1, failed=1, skipped=3)


def test_a_pack_is_gated_and_sealed_in_a_named_store(project: pytest.Pytester) -> None:
    write_starter(Path(project.path) / "evals")
    project.makepyfile(
        test_pack="""
        def test_pack(gatemark):
            result = gatemark.assert_gate("evals/pack.yaml")
            assert len(result.samples("golden")) == 240
        """
    )
    done = run_pytest(project, "test_pack.py", "--gatemark-store", "sealed")
    done.assert_outcomes(passed=1)
    assert (project.path / "sealed" / "gatemark.sqlite3").is_file()


def test_a_wrong_mark_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mark="""
        import pytest

        @pytest.mark.gatemark(inconclusive="pass")
        def test_mark(gatemark):
            raise AssertionError
        """
    )
    done = run_pytest(project, "test_mark.py")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*must be 'fail' or 'skip'*"])


def test_loading_the_plugin_loads_no_numerics(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_light="""
        import sys

        def test_light():
            assert "numpy" not in sys.modules
            assert "gatemark.api" not in sys.modules
        """
    )
    project.runpytest_subprocess(*PLUGIN, "test_light.py").assert_outcomes(passed=1)
