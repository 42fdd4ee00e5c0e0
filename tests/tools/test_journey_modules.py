from __future__ import annotations

from journey_modules import JOURNEYS, Walked, measure


def test_a_journey_has_what_a_command_enters_and_not_what_it_imports() -> None:
    (journey,) = (journey for journey in JOURNEYS if journey.name == "score agreement")
    walked = measure(journey)
    assert walked.exit_code in (0, 1, 3)
    assert "cli/main.py" in walked.modules
    assert any("agreement" in name for name in walked.modules)
    # Loaded with the other scorers, and never called.
    assert not any("overhead" in name or "advisory" in name for name in walked.modules)
    # Its classes and constants are used, and none of its functions.
    assert "core/errors.py" not in walked.modules


def test_folders_are_the_packages_directly_below() -> None:
    walked = Walked(0, ("workspace.py", "exams/agreement/exam.py", "exams/agreement/views.py"))
    assert walked.folders == ("exams",)
