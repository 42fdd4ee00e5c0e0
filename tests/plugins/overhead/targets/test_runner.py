"""The runner: order, restored state, seeds, costs, and targets that misbehave."""

from __future__ import annotations

import gc
import json
import math
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from gatemark.core.errors import BadInputError, IncomparableError, UsageError
from gatemark.plugins.overhead.run import write_run
from gatemark.plugins.overhead.targets.loading import build_target, name_windows
from gatemark.plugins.overhead.targets.passes import find_largest_repeat_shift
from gatemark.plugins.overhead.targets.port import (
    AccuracyCounts,
    EvidenceWindow,
    Loss,
    OverheadTarget,
    PassSeeds,
)
from gatemark.plugins.overhead.targets.process_peak import ProcessPeak
from gatemark.plugins.overhead.targets.runner import ORDER, run_arms
from gatemark.plugins.overhead.targets.state_reset import Reloading

Run = Callable[..., Any]

SEEDS = PassSeeds(python=5, numpy=6, torch=None, bootstrap=7)


class Toy:
    """A target whose loss comes from its weight, and whose guards change that weight."""

    kind: Any = "ppl_causal"
    device = "cpu"
    seq_len = stride = 4
    guards: tuple[str, ...] = ("double",)

    def __init__(self, count: int = 5) -> None:
        self.weight = 1.0
        self.calls: list[str] = []
        self.rows = [bytes([place]) * 4 for place in range(count)]

    def windows(self) -> Sequence[EvidenceWindow]:
        return [EvidenceWindow(row, row) for row in self.rows]

    def snapshot(self) -> float:
        return self.weight

    def restore(self, snapshot: float) -> None:
        self.weight = snapshot

    def fingerprint(self) -> str:
        return f"weight {self.weight}"

    def toggle(self, *, guarded: bool) -> None:
        self.calls.append("on" if guarded else "off")
        if guarded:
            self.weight *= 2

    def evaluate(self, window: EvidenceWindow) -> Any:
        self.calls.append("evaluate")
        return Loss(tokens=3, loss=self.weight + window.data[0])


def ticking() -> Callable[[], float]:
    """A clock on which everything takes exactly two milliseconds."""

    def steps() -> Iterator[float]:
        moment = 0.0
        while True:
            yield moment
            moment += 0.002

    return steps().__next__


def run(target: Any) -> Any:
    return run_arms(target, SEEDS, clock=ticking())


def test_the_order_is_bare_guarded_guarded_bare() -> None:
    seen: list[tuple[int, int]] = []
    found = run_arms(
        Toy(), SEEDS, clock=ticking(), on_progress=lambda done, total: seen.append((done, total))
    )
    assert ORDER == ("bare", "guarded", "guarded", "bare")
    assert tuple(one.arm for one in found.passes) == ORDER
    # Four passes, and four times each window while the arms take turns.
    assert seen == [(done, 40) for done in range(1, 41)]
    assert [round(ms, 6) for ms in found.passes[0].latency_ms] == [2.0] * 5


def test_guards_that_change_the_state_do_not_reach_the_next_pass() -> None:
    found = run(Toy())
    losses = [[outcome.loss for outcome in one.outcomes] for one in found.passes]
    assert losses[0] == losses[3] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert losses[1] == losses[2] == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert {one.before for one in found.passes} == {"weight 1.0"}
    assert {one.restored for one in found.passes} == {"weight 1.0"}
    after = [one.after for one in found.passes]
    assert after == ["weight 1.0", "weight 2.0", "weight 2.0", "weight 1.0"]
    assert find_largest_repeat_shift(found, "guarded") == 0


def test_a_restore_that_does_not_restore_is_noticed() -> None:
    class Sticky(Toy):
        def restore(self, snapshot: float) -> None:
            pass

    with pytest.raises(IncomparableError, match=r"hash was weight 1\.0, is weight 2\.0"):
        run(Sticky())


def test_every_pass_starts_from_the_same_random_streams() -> None:
    class Dicey(Toy):
        def evaluate(self, window: EvidenceWindow) -> Loss:
            return Loss(3, 1 + random.random() + float(np.random.random()))

    found = run(Dicey())
    assert len({one.outcomes for one in found.passes}) == 1
    assert len({outcome.loss for outcome in found.passes[0].outcomes}) == 5


def test_a_target_with_streams_of_its_own_is_told_the_seeds() -> None:
    told: list[PassSeeds] = []

    class Own(Toy):
        def reseed(self, seeds: PassSeeds) -> None:
            told.append(seeds)

    run(Own())
    assert set(told) == {SEEDS}
    assert len(told) >= len(ORDER)


def test_what_is_left_of_the_noise_is_told() -> None:
    class Drifting(Toy):
        evaluated = 0

        def evaluate(self, window: EvidenceWindow) -> Loss:
            self.evaluated += 1
            return Loss(3, 1 + self.evaluated / 1000)

    assert find_largest_repeat_shift(run(Drifting()), "bare") == pytest.approx(0.016)


def test_names_of_windows_follow_content_place_and_plan() -> None:
    one, other = Toy(), Toy()
    names = [window.window_id for window in name_windows(one)]
    assert len(set(names)) == 5
    assert [window.window_id for window in name_windows(other)] == names
    other.stride = 2
    assert not {window.window_id for window in name_windows(other)} & set(names)
    twice = Toy()
    twice.rows = [b"same"] * 3
    found = name_windows(twice)
    assert len({window.window_id for window in found}) == 3
    assert len({window.content_hash for window in found}) == 1


class Hungry(Toy):
    """Needs 60 MB for a window, and 120 MB more with its guards."""

    def evaluate(self, window: EvidenceWindow) -> Loss:
        # Written, because pages that were never written need no memory.
        kept = bytearray(b"x" * (90_000_000 if self.weight > 1 else 30_000_000))
        return Loss(3, 1.0 + len(kept) % 7)


def test_the_peak_of_the_process_shows_what_the_guards_need() -> None:
    if reason := ProcessPeak().reset():
        pytest.skip(reason)
    memory = run(Hungry(1)).memory
    bare, guarded = memory["bare"], memory["guarded"]
    assert (bare.source, guarded.source) == ("process", "process")
    assert isinstance(bare.peak, int)
    assert isinstance(guarded.peak, int)
    assert (bare.rss, guarded.rss) == (bare.peak, guarded.peak)
    assert 80_000_000 < guarded.peak - bare.peak < 160_000_000


def test_where_the_peak_cannot_be_reset_pythons_allocator_is_read(tmp_path: Path) -> None:
    found = run_arms(Hungry(1), SEEDS, clock=ticking(), meter=ProcessPeak(tmp_path / "no"))
    memory = found.memory
    assert (memory["bare"].source, memory["guarded"].source) == ("python", "python")
    assert 60_000_000 <= cast("int", memory["bare"].peak) < 61_000_000
    assert 180_000_000 <= cast("int", memory["guarded"].peak) < 181_000_000
    assert "cannot reset the peak memory of a process (No such" in str(memory["bare"].rss)
    write_run(found, tmp_path / "run")
    costs = json.loads((tmp_path / "run" / "costs.json").read_text())["arms"]["bare"]
    assert (costs["memory_source"], costs["peak_rss_bytes"]) == ("python", None)
    assert costs["rss_reason"] == memory["bare"].rss


def test_the_memory_of_a_device_goes_before_that_of_the_process() -> None:
    class OnDevice(Toy):
        def start_memory(self) -> None:
            self.calls.append("start")

        def peak_memory(self) -> int:
            return int(1_000 * self.weight)

    memory = run(OnDevice()).memory
    assert (memory["bare"].peak, memory["guarded"].peak) == (1_000, 2_000)
    assert memory["guarded"].source == "device"
    assert memory["guarded"].rss != 2_000


def test_a_status_file_without_the_peak_is_a_reason(tmp_path: Path) -> None:
    meter = ProcessPeak(tmp_path)
    assert meter.reset() is None
    assert "does not report" in str(meter.read())
    for text, found in (("VmHWM:\t 12 kB\n", 12_288), ("VmHWM:\t 12\n", None)):
        (tmp_path / "status").write_text(text)
        assert meter.read() == found or (found is None and "no VmHWM" in str(meter.read()))


def test_a_target_can_be_built_again_for_each_pass() -> None:
    alive: list[int] = []

    class Fresh(Toy):
        """Has no snapshot: what its guards did goes with it."""

        snapshot = restore = property()  # type: ignore[assignment]

    def build() -> Any:
        gc.collect()
        alive.append(sum(reference() is not None for reference in references))
        found = Fresh()
        references.append(weakref.ref(found))
        return found

    references: list[Any] = []
    found = run_arms(Reloading(build), SEEDS, clock=ticking())
    kept = run(Toy())
    assert [one.outcomes for one in found.passes] == [one.outcomes for one in kept.passes]
    assert {one.before for one in found.passes} == {"weight 1.0"}
    assert len(references) >= len(ORDER)
    assert set(alive) == {0}, "an old target was still in memory when the next was built"
    assert "building the target again is slow" in str(found.timing)


def test_a_target_that_is_built_again_must_come_out_the_same() -> None:
    weights = iter([1.0, 1.5])

    def other_weights() -> Any:
        found = Toy()
        found.weight = next(weights)
        return found

    with pytest.raises(IncomparableError, match="building the target again around warming up"):
        run_arms(Reloading(other_weights), SEEDS, clock=ticking())
    counts = iter([5, 6])
    with pytest.raises(IncomparableError, match="other windows after it was built again"):
        run_arms(Reloading(lambda: Toy(next(counts))), SEEDS, clock=ticking())


class InBatches(Toy):
    """Evaluates windows together, which takes as long as one of them."""

    def evaluate_batch(self, windows: Sequence[EvidenceWindow]) -> Any:
        self.calls.append(f"batch of {len(windows)}")
        return [self.evaluate(window) for window in windows]


def test_windows_are_evaluated_in_batches_and_share_their_time() -> None:
    target = InBatches()
    found = run_arms(target, SEEDS, clock=ticking(), batch_size=2)
    assert [one.outcomes for one in found.passes] == [one.outcomes for one in run(Toy()).passes]
    assert {"batch of 2", "batch of 1"} <= set(target.calls)
    assert [round(ms, 6) for ms in found.passes[0].latency_ms] == [1.0] * 4 + [2.0]
    assert not isinstance(found.timing, str)
    assert [group.windows for group in found.timing] == [2, 2, 1]


def test_batches_need_a_target_that_takes_them() -> None:
    with pytest.raises(BadInputError, match=r"batch_size 2 needs evaluate_batch\(windows\)"):
        run_arms(Toy(), SEEDS, clock=ticking(), batch_size=2)
    for answer in ([Loss(3, 1.0)], None):
        target = type("Short", (Toy,), {"evaluate_batch": lambda self, windows, a=answer: a})()
        with pytest.raises(BadInputError, match="must give a list of 2 outcomes"):
            run_arms(target, SEEDS, clock=ticking(), batch_size=2)


def test_each_guard_alone_is_timed_where_the_target_can_switch_on_one() -> None:
    class Chain(Toy):
        guards = ("slow", "harmful")
        now = 0.0

        def toggle(self, *, guarded: bool) -> None:
            self.on = self.guards if guarded else ()

        def toggle_one(self, guard: str) -> None:
            self.on = (guard,)

        def evaluate(self, window: EvidenceWindow) -> Loss:
            on = getattr(self, "on", ())
            self.now += 0.003 if "slow" in on else 0.002
            return Loss(3, 1.0 + 0.25 * ("harmful" in on))

    target = Chain()
    slow, harmful = run_arms(target, SEEDS, clock=lambda: target.now).guard_runs
    assert (slow.name, harmful.name) == ("slow", "harmful")
    assert slow.alone_ms / slow.bare_ms == pytest.approx(1.5)
    assert harmful.alone_ms / harmful.bare_ms == pytest.approx(1.0)
    assert (slow.shift, harmful.shift) == (0.0, pytest.approx(0.25))
    assert run(Toy()).guard_runs == ()


def test_every_install_of_the_guards_is_timed() -> None:
    class Slow(Toy):
        now = 0.0

        def toggle(self, *, guarded: bool) -> None:
            super().toggle(guarded=guarded)
            self.now += (0.5 if len(self.calls) < 8 else 0.25) * guarded

    target = Slow()
    found = run_arms(target, SEEDS, clock=lambda: target.now)
    assert found.installs_ms == (500.0, 250.0, 250.0)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"windows": lambda self: []}, "at least one window"),
        ({"windows": lambda self: 1 / 0}, "windows() raised ZeroDivisionError"),
        ({"snapshot": lambda self: self.nothing}, "snapshot() raised AttributeError"),
        ({"fingerprint": lambda self: {}["x"]}, "fingerprint() raised KeyError"),
        ({"toggle": lambda self, *, guarded: 1 / (not guarded)}, "toggle(guarded=True) raised"),
        ({"evaluate": lambda self, window: None}, "must give Loss for kind ppl_causal"),
        ({"evaluate": lambda self, window: AccuracyCounts(1, 2)}, "got AccuracyCounts"),
        ({"evaluate": lambda self, window: window.nothing}, "of window w000000-"),
        ({"evaluate": lambda self, window: Loss(3, None)}, "loss must be a number, got None"),
        ({"evaluate": lambda self, window: Loss(3, "2")}, "loss must be a number, got '2'"),
        ({"evaluate": lambda self, window: Loss(3, loss=True)}, "loss must be a number, got True"),
        ({"evaluate": lambda self, window: Loss(2.5, 2)}, "tokens must be a whole number >= 0"),
        ({"evaluate": lambda self, window: Loss(-1, 2)}, "tokens must be a whole number >= 0"),
        ({"evaluate": lambda self, window: Loss(2**64, 2)}, "tokens must be a whole number >= 0"),
        (
            {"kind": "accuracy", "evaluate": lambda self, window: AccuracyCounts(2.7, 4)},
            "correct must be",
        ),
        ({"kind": "bleu"}, "kind must be one of ppl_causal, ppl_mlm, ppl_seq2seq, accuracy"),
        ({"device": None}, "device must be a text, got None"),
        ({"device": " "}, "device must be a text"),
        ({"seq_len": 0}, "seq_len must be a whole number >= 1, got 0"),
        ({"stride": "4"}, "stride must be a whole number >= 1, got '4'"),
        ({"guards": "clip"}, "guards must be a tuple of names, got 'clip'"),
        ({"guards": None}, "guards must be a tuple of names"),
        ({"fingerprint": lambda self: " "}, "fingerprint() must give a text of 1 to 512"),
        (
            {"windows": lambda self: [1, 2]},
            "must give EvidenceWindow(content=bytes, data=…), got int at 0",
        ),
        ({"windows": lambda self: [EvidenceWindow("text", 1)]}, "without content in bytes"),
        (
            {"start_memory": lambda self: None, "peak_memory": lambda self: -1},
            "peak_memory() must be bytes as a whole number >= 0, or a reason, got -1",
        ),
        ({"start_memory": lambda self: None, "peak_memory": lambda self: " "}, "peak_memory()"),
    ],
)
def test_a_target_that_breaks_is_named_with_what_it_was_asked(broken: Any, words: str) -> None:
    target: Any = type("Broken", (Toy,), broken)()
    with pytest.raises(BadInputError) as caught:
        run(target)
    assert words in str(caught.value)


def test_numbers_of_numpy_become_plain_ones(tmp_path: Path) -> None:
    class Typed(Toy):
        def evaluate(self, window: EvidenceWindow) -> Loss:
            loss: Any = 10**400 if window.data[0] == 1 else np.float32(2.5)
            return Loss(int(np.int64(3)) if window.data[0] else np.int64(3), loss)  # type: ignore[arg-type]

    found = run(Typed())
    assert found.passes[0].outcomes[:2] == (Loss(3, 2.5), Loss(3, math.inf))
    write_run(found, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "bare.jsonl").read_text().splitlines()]
    assert [row.get("loss") for row in rows[1:4]] == [2.5, None, 2.5]


def test_counts_and_missing_values_are_written_as_strict_json(tmp_path: Path) -> None:
    class Counting(Toy):
        kind = "accuracy"

        def evaluate(self, window: EvidenceWindow) -> AccuracyCounts:
            return AccuracyCounts(correct=int(3 - self.weight), total=3)

    class Failing(Toy):
        def evaluate(self, window: EvidenceWindow) -> Loss:
            return Loss(3, math.nan if window.data[0] == 2 else 1.0)

    write_run(run(Counting()), tmp_path / "c")
    write_run(run(Failing()), tmp_path / "f")
    text = (tmp_path / "c" / "guarded.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert (rows[1]["correct"], rows[1]["total"], rows[0]["metric_kind"]) == (1, 3, "accuracy")
    text = (tmp_path / "f" / "bare.jsonl").read_text()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    assert [row.get("loss") for row in rows[1:]] == [1.0, 1.0, None, 1.0, 1.0]


def test_a_toy_keeps_the_port() -> None:
    assert isinstance(Toy(), OverheadTarget)


# The command.

OWN = """
from gatemark.plugins.overhead.targets.port import Loss, EvidenceWindow

class Own:
    kind, device, seq_len, stride, guards = "ppl_causal", "cpu", 4, 4, ("g",)
    def __init__(self, cost): self.cost, self.on = cost, False
    def windows(self): return [EvidenceWindow(bytes([i]) * 4, i) for i in range(200)]
    def snapshot(self): return None
    def restore(self, snapshot): self.on = False
    def fingerprint(self): return "constant"
    def toggle(self, *, guarded): self.on = guarded
    def evaluate(self, window):
        print("a target may print")
        return Loss(100, 2 + window.data / 1000 + self.cost * self.on)

def build(options, seeds):
    return Own(options["cost"])
"""


@pytest.fixture
def own(gatemark: Run, tmp_path: Path) -> Run:
    """Run a target of one's own with some lines of configuration."""
    (tmp_path / "own_target.py").write_text(OWN)

    def go(config: str, *arguments: object) -> Any:
        path = tmp_path / "overhead.yaml"
        path.write_text(f"gatemark_overhead: 1\n{config}")
        return gatemark("overhead", "run", path, "--json", *arguments)

    return go


@pytest.mark.parametrize(("cost", "code"), [(0.005, 0), (0.02, 1), (0.0, 3), ("nan", 3)])
def test_a_target_of_ones_own_is_measured(own: Run, tmp_path: Path, cost: Any, code: int) -> None:
    value = ".nan" if cost == "nan" else cost
    ran = own(f"target: {{python: 'own_target:build'}}\noptions: {{cost: {value}}}\n")
    assert ran.code == code
    names = {
        *("bare.jsonl", "guarded.jsonl", "repeat.jsonl", "noise.jsonl"),
        *("costs.json", "report.json"),
    }
    assert {path.name for path in (tmp_path / "overhead").iterdir()} == names
    assert ran.json["guard_overhead"]["noise"]["given"] is True
    assert ran.json["axes"]["latency"]["state"] == (
        "not measured" if cost == "nan" else "not gated"
    )
    assert ran.json == json.loads((tmp_path / "overhead" / "report.json").read_text())
    assert "a target may print" in ran.err


def test_a_guard_that_never_comes_off_does_not_pass_as_bare(own: Run, tmp_path: Path) -> None:
    leaking = OWN.replace("restore(self, snapshot): self.on = False", "restore(self, snapshot): 0")
    leaking = leaking.replace("guarded): self.on = guarded", "guarded): self.on |= guarded")
    (tmp_path / "own_target.py").write_text(leaking)
    ran = own("target: {python: 'own_target:build'}\noptions: {cost: 2.0}\n")
    assert ran.code != 0
    assert ran.json["guard_overhead"]["bare_ppl"] < 20 < ran.json["guard_overhead"]["guarded_ppl"]
    assert ran.json["guard_overhead"]["checks"]["overhead.noise"] != "pass"


def test_no_guard_is_touched_before_the_first_pass_is_over() -> None:
    toy = Toy()
    run(toy)
    assert toy.calls[:6] == ["evaluate"] * 6


GROWING = """
        self.seen = getattr(self, "seen", 0) + self.on
        drift = 0.0 if self.seen <= 201 else self.cost
        return Loss(100, 2 + window.data / 1000 + drift * self.on)
"""


def test_a_guard_that_costs_more_in_its_second_pass_holds(
    own: Run, gatemark: Run, tmp_path: Path
) -> None:
    head, _, tail = OWN.partition('        print("a target may print")\n')
    body = tail[tail.index("\ndef build") :]
    (tmp_path / "own_target.py").write_text(head + GROWING.removeprefix("\n") + body)
    ran = own("target: {python: 'own_target:build'}\noptions: {cost: 0.05}\nout: here\n")
    assert ran.json["guard_overhead"]["overhead"] == 0
    assert (ran.code, ran.json["guard_overhead"]["checks"]["overhead.repeat"]) == (3, "fail")
    assert ran.json["guard_overhead"]["repeat"]["floor"] == pytest.approx(math.expm1(0.05))
    here = tmp_path / "here"
    arms = ("--bare", here / "bare.jsonl", "--guarded", here / "guarded.jsonl")
    assert gatemark("overhead", "verify", here / "report.json", *arms).code == 3
    report = json.loads((here / "report.json").read_text())
    report["guard_overhead"]["repeat"]["floor"] = 0.0
    (here / "edited.json").write_text(json.dumps(report))
    edited = gatemark("overhead", "verify", here / "edited.json", *arms, "--json")
    assert (edited.code, edited.json["checks"]["value.repeat"]) == (4, "fail")
    other = ("--repeat", here / "guarded.jsonl", "--json")
    verified = gatemark("overhead", "verify", here / "report.json", *arms, *other)
    assert (verified.code, verified.json["checks"]["arm.repeat"]) == (4, "fail")


def test_recorded_hashes_of_the_state_are_checked(own: Run, gatemark: Run, tmp_path: Path) -> None:
    own("target: {python: 'own_target:build'}\noptions: {cost: 0.001}\nout: here\n")
    here = tmp_path / "here"
    costs = json.loads((here / "costs.json").read_text())
    costs["passes"][1]["restored"] = "another"
    (here / "edited.json").write_text(json.dumps(costs))
    arms = ("--bare", here / "bare.jsonl", "--guarded", here / "guarded.jsonl")
    ran = gatemark("score", "overhead", *arms, "--costs", here / "edited.json", "--json")
    assert ran.code == 3
    (error,) = ran.json["guard_overhead"]["errors"]
    assert (error["check"], "another" in error["message"]) == ("arm.restored", True)


def test_a_run_can_be_verified_with_what_lies_beside_it(
    own: Run, gatemark: Run, tmp_path: Path
) -> None:
    own("target: {python: 'own_target:build'}\noptions: {cost: 0.001}\nout: here\n")
    here = tmp_path / "here"
    arms = ("--bare", here / "bare.jsonl", "--guarded", here / "guarded.jsonl")
    assert gatemark("overhead", "verify", here / "report.json", *arms).code == 0
    costs = json.loads((here / "costs.json").read_text())
    costs["arms"]["guarded"]["latency_ms"][0][0] *= 9
    (here / "edited.json").write_text(json.dumps(costs))
    ran = gatemark(
        *("overhead", "verify", here / "report.json", *arms, "--json"),
        *("--costs", here / "edited.json"),
    )
    assert (ran.code, ran.json["checks"]["costs"]) == (4, "fail")


def test_time_and_memory_have_budgets_of_their_own(own: Run, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "overrides:\n- {field: latency_budget, value: 10}\n- {field: memory_budget, value: 10}\n"
    )
    config = "target: {python: 'own_target:build'}\noptions: {cost: 0.001}\npolicy: policy.yaml\n"
    ran = own(config)
    axes = ran.json["axes"]
    assert ran.code == 0
    assert (axes["latency"]["state"], axes["memory"]["state"]) == ("pass", "pass")
    assert (axes["latency"]["budget"], axes["memory"]["budget"]) == (10, 10)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("target: {example: nope}\n", "target must name a function"),
        ("target: {python: 'gone:build'}\n", "No module named 'gone'"),
        ("target: {python: 'own_target:nope'}\n", "has no function 'nope'"),
        ("target: {python: 'os;system'}\n", "must look like 'module:function'"),
        ("target: {python: 'own_target:build'}\n", "raised KeyError: 'cost'"),
        ("target: {python: 'own_target:Own'}\noptions: {}\n", "raised TypeError"),
        ("target: {}\n", "target must name a function"),
        ("target: {python: 'own_target:build'}\nbudget: 99\n", "unknown field `budget`"),
        ("target: {python: 'own_target:build'}\nseeds: {luck: 7}\n", "unknown field `luck`"),
        ("target: {python: 'own_target:build'}\nseeds: {python: -1}\n", "Expected `int` >= 0"),
        (
            "target: {python: 'own_target:build'}\nseeds: {numpy: 9007199254740992}\n",
            "9007199254740991",
        ),
        ("target: {python: 'own_target:build'}\nseeds: {numpy: true}\n", "got `bool`"),
        ("target: {python: 'own_target:build'}\npolicy: gone.yaml\n", "gone.yaml: No such file"),
        ("target: {python: 'own_target:build'}\ntarget: {python: x}\n", "appears more than once"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(
    own: Run, tmp_path: Path, config: str, words: str
) -> None:
    ran = own(config)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert not (tmp_path / "overhead").exists()


def test_what_cannot_be_judged_or_written_is_refused_before_the_model_runs(
    own: Run, tmp_path: Path
) -> None:
    config = "target: {python: 'own_target:build'}\noptions: {cost: 0.0}\n"
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for arguments, words in (
        (["--budget", "0.3"], "needs a reason, an owner and an evidence reference"),
        (["--policy", tmp_path / "gone.yaml"], "gone.yaml: No such file"),
        (["--out", taken], "taken is a file; give a folder"),
    ):
        ran = own(config, *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err
        assert "a target may print" not in ran.err
        assert not (tmp_path / "overhead").exists()


def test_what_a_builder_returns_must_be_a_target(tmp_path: Path) -> None:
    (tmp_path / "odd_target.py").write_text("def build(options, seeds): return 7\n")
    with pytest.raises(BadInputError, match="must return a target, got int without kind"):
        build_target({"python": "odd_target:build"}, {}, SEEDS, tmp_path)
    (tmp_path / "needy_target.py").write_text("import a_package_nobody_has\n")
    with pytest.raises(UsageError, match="a_package_nobody_has"):
        build_target({"python": "needy_target:build"}, {}, SEEDS, tmp_path)


def test_reload_and_batches_are_set_in_the_configuration(own: Run, tmp_path: Path) -> None:
    config = "target: {python: 'own_target:build'}\noptions: {cost: 0.001}\n"
    batches = own(f"{config}batch_size: 4\n")
    assert (batches.code, batches.out) == (2, "")
    assert "batch_size 4 needs evaluate_batch(windows), which Own does not have" in batches.err
    assert "Expected `int` >= 1" in own(f"{config}batch_size: 0\n").err
    kept, again = own(f"{config}out: kept\n"), own(f"{config}reload: true\nout: again\n")
    assert (kept.code, again.code) == (0, 0), again.err
    for name in ("bare.jsonl", "guarded.jsonl", "noise.jsonl", "repeat.jsonl"):
        assert (tmp_path / "kept" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    (tmp_path / "bare_target.py").write_text(
        "import own_target\n\n"
        "class Bare(own_target.Own):\n    snapshot = restore = property()\n\n"
        "def build(options, seeds):\n    return Bare(**options)\n"
    )
    config = config.replace("own_target", "bare_target")
    assert "set 'reload: true'" in own(config).err
    assert own(f"{config}reload: true\n").code == 0
