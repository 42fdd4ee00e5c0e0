"""Results of packs: every kind of suite, of scorer and of target that needs no network."""

from __future__ import annotations

from typing import Any, Final

from store_fixture import data
from store_fixture.stage import Stage

EXAMS: Final = """gatemark: 1
name: evidence
version: 2
asset: {kind: agent, name: help-desk}
score_min: 0.5
regression_max: 0.05
suites:
  - {id: panel, kind: agreement, weight: 0.2, min: 0.9,
     evidence: {pairs: ../evidence/pairs.jsonl},
     baseline_evidence: {pairs: ../evidence/pairs-before.jsonl}}
  - {id: advice, kind: advisory, weight: 0.2, evidence: {decisions: ../evidence/decisions.jsonl},
     baseline_evidence: none}
  - {id: guards, kind: overhead, weight: 0.2, baseline_evidence: none,
     evidence: {bare: ../evidence/bare.jsonl, guarded: ../evidence/guarded.jsonl,
                noise: ../evidence/noise.jsonl, costs: ../evidence/costs.json}}
  - {id: summaries, kind: runlog, weight: 0.2, baseline_evidence: none,
     options: {bootstrap_samples: 200},
     evidence: {metrics: ../evidence/metrics/per_case.metrics.jsonl}}
  - {id: blind, kind: pairwise, weight: 0.2, evidence: {records: ../evidence/votes.jsonl},
     baseline_evidence: none, options: {min_decisive: 10}}
"""

SCORERS: Final = """gatemark: 1
name: scorers
version: 1
asset: {{kind: extractor, name: form-reader}}
score_min: 0.5
regression_max: 0.5
alpha: 0.1
suites:
{suites}
  - {{id: odds, kind: golden, weight: 0.04, dataset: scorers/odds.jsonl, epochs: 3,
     options: {{k: 2}}, scorer: exact, regression: point}}
  - {{id: taken, kind: adversarial, weight: 0.04, dataset: "builtin:probes_v1",
     sample: {{n: 12, seed: 3}}, reruns: 2, fails_at: 2}}
targets:
  candidate: {candidate}
  baseline: {baseline}
rules:
  - {{id: own.score, metric: score, scope: exact, op: ">=", bound: 0.1, severity: warn}}
"""

JUDGED: Final = """gatemark: 1
name: judged
version: {version}
asset: {{kind: prompt, name: shouting}}
score_min: 0.9
regression_max: 0.05
suites:
  - {{id: helpful, kind: golden, weight: 1, min: 0.9, dataset: judged/items.jsonl,
     regression: point, scorer: {{name: judge, judge: grader, options: {{votes: 3}}}}}}
judges:
  grader: {{target: {{python: "judging:{judge}"}}, labels: judged/labels.jsonl}}
targets:
  candidate: {{python: "judging:{candidate}"}}
  baseline: {{python: "judging:answer"}}
"""

OWN: Final = """gatemark: 1
name: own
version: 1
asset: {kind: classifier, name: mail-sorter}
score_min: 0.5
regression_max: 0.05
suites:
  - {id: golden, kind: golden, weight: 1, dataset: data/golden.jsonl, regression: point,
     scorer: {name: python, options: {function: "own:first_letter"}}}
targets:
  candidate: {recorded: answers.jsonl}
  baseline: none
"""

REPLAY_WAIVERS: Final = """- rule: recent.floor
  owner: dai
  reason: traffic shifted on purpose when the courier began
  expires_at: 2026-06-01T00:00:00Z
- rule: recent.regression
  owner: dai
  reason: the same letters
  expires_at: 2026-06-01T00:00:00Z
"""


def write_packs(on: Stage) -> None:
    """The required pack of the sorter, with its data and its targets."""
    on.write("packs/sorter.py", data.SORTER)
    on.lines("packs/data/golden.jsonl", data.mail("golden", 60))
    on.lines("packs/data/recent.jsonl", data.mail("recent", 40, again=True))
    on.lines("packs/data/attacks.jsonl", data.attacks(12))
    on.write("packs/replay-waivers.yaml", REPLAY_WAIVERS)
    for candidate in ("v1", "v2", "v3", "v4", "v5", "v6", "v7", "careless", "failing"):
        on.write(f"packs/{candidate}.yaml", data.pack(candidate))


def examine(on: Stage, pack: str, *words: object, code: int = 0, actor: str = "ben") -> str:
    """Run a pack and return the id of its result."""
    result = on.json("run", f"packs/{pack}.yaml", *words, actor=actor, codes=(code,))
    return str(result["id"])


def seal_packs(on: Stage) -> None:
    """A pass, a fail, an open verdict, and judging again, over every kind of suite."""
    votes = [data.vote(number, "candidate" if number < 20 else "tie") for number in range(24)]
    on.lines("evidence/votes.jsonl", votes)
    on.write("packs/evidence.yaml", EXAMS)
    examine(on, "evidence")
    failing = examine(on, "failing", code=3)
    examine(on, "careless", code=1)
    examine(on, "v2", "--limit", 5, code=3)
    on.write("packs/lenient.yaml", data.pack("failing", score_min=0.6, floor=0.5, errors_max=0.5))
    on.run("gate", failing, "--pack", "packs/lenient.yaml", actor="ben")
    # Judged again by the same pack: the same result on another occasion.
    on.run("gate", failing, "--pack", "packs/failing.yaml", actor="ben", codes=(3,))
    seal_scorers(on)
    seal_judged(on)


def seal_scorers(on: Stage) -> None:
    """One golden suite per scorer, answered by a command and by a recording."""
    names = sorted(data.SCORED)
    for name in names:
        on.lines(f"packs/scorers/{name}.jsonl", data.scored_items(name))
    on.lines("packs/scorers/odds.jsonl", data.mail("odds", 8))
    on.write("packs/clerk.py", data.CLERK)
    suites = "\n".join(
        f"  - {{id: {name}, kind: golden, weight: 0.092, dataset: scorers/{name}.jsonl,\n"
        f"     scorer: {{name: {name}, options: {data.SCORED[name]['options']}}}}}"
        for name in names
    )
    command = "{command: [python3, clerk.py]}"
    text = SCORERS.format(suites=suites, candidate=command, baseline="none")
    on.write("packs/scorers.yaml", text)
    first = examine(on, "scorers", "-j", 2, code=1)
    examine(on, "scorers", "--baseline", first)


def seal_own_scorer(on: Stage) -> None:
    """A scorer that lives in the pack's folder; such a result cannot be derived again."""
    on.write("packs/own.py", data.OWN_SCORER)
    on.write("packs/own.yaml", OWN)
    on.lines("packs/answers.jsonl", data.recorded(data.mail("golden", 60)))
    examine(on, "own")


def seal_judged(on: Stage) -> None:
    """A model judge that may gate, and one that people do not agree with."""
    on.write("packs/judging.py", data.JUDGING)
    on.lines("packs/judged/items.jsonl", data.judged_items(16))
    on.lines("packs/judged/labels.jsonl", data.judged_labels(60))
    for name, version, judge, candidate, code in (
        ("judged", 1, "good_judge", "answer", 0),
        ("judged-worse", 1, "good_judge", "worse", 1),
        ("judged-lenient", 2, "lenient_judge", "worse", 3),
    ):
        pack = JUDGED.format(version=version, judge=judge, candidate=candidate)
        on.write(f"packs/{name}.yaml", pack)
        examine(on, name, code=code)


def refit(on: Stage, asset: str, version: str, **more: Any) -> None:
    """Fit a map for stated confidences and draft it as a version."""
    rows = data.overconfident(400)
    file = on.lines("evidence/samples.jsonl", rows)
    on.run(
        *("calibration", "refit", file, "--out", "evidence/refit", "--as", f"{asset}@{version}"),
        *("--note", "stated confidences are too high"),
        actor="ben",
        **more,
    )
