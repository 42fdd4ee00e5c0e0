"""The PyTorch adapter on a tiny transformer with random weights, on the CPU."""

from __future__ import annotations

import math
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip(
    "torch", reason="torch is not installed here; CI installs it and runs this file"
)

from gatemark.core.errors import BadInputError, IncomparableError  # noqa: E402
from gatemark.plugins.overhead.run import write_run  # noqa: E402
from gatemark.plugins.overhead.targets.port import (  # noqa: E402
    AccuracyCounts,
    Batched,
    Loss,
    MemoryMeter,
    OverheadTarget,
    PassSeeds,
    Reseedable,
    SingleGuards,
)
from gatemark.plugins.overhead.targets.runner import run_arms  # noqa: E402
from gatemark.plugins.overhead.targets.torch_adapter import (  # noqa: E402
    ActivationClip,
    CausalLm,
    Classifier,
    MaskedLm,
    Seq2SeqLm,
    SpectralCap,
    use_deterministic_algorithms,
)

# Threads of several test processes would wait for each other.
torch.set_num_threads(1)

WORDS, WIDTH, LENGTH = 40, 32, 16
SEEDS = PassSeeds(python=3, numpy=3, torch=3, bootstrap=3)


class TinyLm(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Two transformer layers with a causal mask, and a buffer that evaluating does not change."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, WIDTH)
        self.place = torch.nn.Embedding(LENGTH, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, 4, dim_feedforward=64, dropout=dropout, batch_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = torch.nn.Linear(WIDTH, WORDS)
        self.register_buffer("seen", torch.zeros(1, dtype=torch.bfloat16))

    def forward(self, ids: Any) -> Any:
        hidden = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        mask = torch.nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.out(self.layers(hidden, mask=mask, is_causal=True))


def target(guards: Any = (), **more: Any) -> CausalLm:
    torch.manual_seed(1)
    tokens = torch.randint(0, WORDS, (30 * LENGTH,)).tolist()
    return CausalLm(TinyLm(), tokens, seq_len=LENGTH, guards=guards, **more)


def run(found: CausalLm) -> Any:
    with use_deterministic_algorithms():
        return run_arms(found, SEEDS, clock=time.perf_counter)


def perplexity(found: Any, place: int) -> float:
    outcomes = found.passes[place].outcomes
    total = sum(outcome.tokens for outcome in outcomes)
    return math.exp(sum(outcome.tokens * outcome.loss for outcome in outcomes) / total)


def test_the_adapter_keeps_the_port() -> None:
    found = target()
    assert isinstance(found, OverheadTarget)
    assert isinstance(found, Reseedable)
    assert isinstance(found, MemoryMeter)
    assert isinstance(found, Batched)
    assert isinstance(found, SingleGuards)


def test_the_loss_is_that_of_torch_on_shifted_tokens() -> None:
    found = target()
    window = found.windows()[0]
    with torch.no_grad():
        logits = found._model(window.data.unsqueeze(0))[0]
        shares = torch.log_softmax(logits[:-1], dim=-1)
        expected = -shares[torch.arange(LENGTH - 1), window.data[1:]].mean()
    outcome = found.evaluate(window)
    assert outcome.tokens == LENGTH - 1
    assert outcome.loss == pytest.approx(float(expected), rel=1e-6)


def test_a_wide_clip_changes_nothing_and_a_tight_one_does() -> None:
    wide, tight = run(target([ActivationClip(1e6)])), run(target([ActivationClip(0.01)]))
    # Hooks switch off torch's fused layers, so the last digits may differ.
    assert perplexity(wide, 1) == pytest.approx(perplexity(wide, 0), rel=1e-6)
    assert perplexity(tight, 0) == perplexity(wide, 0)
    assert perplexity(tight, 1) != pytest.approx(perplexity(tight, 0), rel=1e-3)


def test_a_guard_that_changes_weights_is_undone_by_the_restore() -> None:
    found = run(target([SpectralCap(0.3), ActivationClip(5.0)]))
    assert [one.arm for one in found.passes] == ["bare", "guarded", "guarded", "bare"]
    for one in found.passes:
        assert one.before == one.restored == found.snapshot_hash
        assert (one.after != found.snapshot_hash) is (one.arm == "guarded")
    assert found.passes[0].outcomes == found.passes[3].outcomes
    assert found.passes[1].outcomes == found.passes[2].outcomes
    assert found.guards == ("spectral_cap", "clip")


def test_a_guard_that_leaves_its_hooks_or_a_patched_forward_is_noticed() -> None:
    class Stuck(ActivationClip):
        def remove(self, model: Any) -> None:
            pass

    class Patching(Stuck):
        def install(self, model: Any) -> None:
            model.forward = partial(model.forward)

    class Switching(Stuck):
        def install(self, model: Any) -> None:
            model.train()

    class Counting(ActivationClip):
        calls = 0

        def install(self, model: Any) -> None:
            super().install(model)
            self.calls = self.calls + 1

    class Averaging(ActivationClip):
        def install(self, model: Any) -> None:
            super().install(model)
            self.means = [*getattr(self, "means", ()), torch.ones(2)]

    guards = (Stuck(0.01), Patching(0.01), Switching(0.01), Counting(0.01), Averaging(0.01))
    for guard in guards:
        with pytest.raises(IncomparableError, match="did not bring the state back"):
            run(target([guard]))


def test_a_guard_that_resets_what_it_counts_is_measured() -> None:
    class Counting(ActivationClip):
        calls = 0

        def _clip(self, _module: Any, _inputs: object, output: Any) -> Any:
            self.calls += 1
            return super()._clip(_module, _inputs, output)

        def remove(self, model: Any) -> None:
            super().remove(model)
            self.__dict__.pop("calls", None)

    assert run(target([Counting(0.01)])).guards == ("clip",)


def test_the_same_seeds_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_run(run(target([SpectralCap(0.5)])), tmp_path / name)
    for file in ("bare.jsonl", "guarded.jsonl", "noise.jsonl"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_model_that_changes_itself_outside_its_state_dict_is_noticed() -> None:
    class Leaky(TinyLm):
        def state_dict(self, *arguments: Any, **more: Any) -> Any:
            state = super().state_dict(*arguments, **more)
            state["calls"] = torch.tensor(self.__dict__.setdefault("calls", 0))
            self.__dict__["calls"] += 1
            return state

        def load_state_dict(self, state: Any, strict: bool = True, assign: bool = False) -> Any:
            return super().load_state_dict(
                {name: value for name, value in state.items() if name != "calls"}, strict=strict
            )

    leaky = CausalLm(Leaky(), list(range(WORDS)) * 4, seq_len=LENGTH)
    with pytest.raises(IncomparableError, match="did not bring the state back"):
        run(leaky)


def test_buffers_that_are_not_saved_are_restored_too() -> None:
    class Counting(TinyLm):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()), persistent=False)

        def forward(self, ids: Any) -> Any:
            self.calls += 1
            return super().forward(ids) * (1 + self.calls / 100)

    torch.manual_seed(1)
    found = run(CausalLm(Counting(), list(range(WORDS)) * 4, seq_len=LENGTH))
    assert found.passes[0].outcomes == found.passes[3].outcomes
    assert found.passes[0].after != found.snapshot_hash == found.passes[0].restored


TRAINED = """
import torch
from gatemark.plugins.overhead.targets.torch_adapter import ActivationClip, CausalLm

WORDS = 20

def build(options, seeds):
    torch.manual_seed(seeds.torch)
    # The next word is one up, but for one in ten: enough windows that no two are alike.
    leaps = (torch.rand(11_000) < 0.1) * torch.randint(WORDS, (11_000,))
    tokens = (torch.arange(11_000) + leaps.cumsum(0)).remainder(WORDS).tolist()
    model = torch.nn.Sequential(torch.nn.Embedding(WORDS, 16), torch.nn.Linear(16, WORDS))
    steps = torch.optim.Adam(model.parameters(), lr=0.05)
    ids = torch.tensor(tokens)
    for _ in range(40):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(model(ids[:-1]), ids[1:]).backward()
        steps.step()
    return CausalLm(model, tokens, seq_len=52, guards=[ActivationClip(options["limit"])])
"""


@pytest.mark.parametrize(("limit", "code"), [(5.2, 0), (0.5, 1), (1e6, 3)])
def test_a_trained_model_is_judged_by_its_perplexity(
    gatemark: Any, tmp_path: Path, limit: float, code: int
) -> None:
    (tmp_path / "trained_target.py").write_text(TRAINED)
    config = tmp_path / "overhead.yaml"
    config.write_text(
        "gatemark_overhead: 1\ntarget: {python: 'trained_target:build'}\n"
        f"options: {{limit: {limit}}}\nseeds: {{torch: 3}}\nout: run\n"
    )
    ran = gatemark("overhead", "run", config, "--json")
    assert ran.code == code, ran.err
    assert ran.json["meta"]["seeds"]["torch"] == 3
    assert ran.json["guard_overhead"]["bare_ppl"] < 3
    arms = ("--bare", tmp_path / "run" / "bare.jsonl", "--guarded", tmp_path / "run/guarded.jsonl")
    assert gatemark("overhead", "verify", tmp_path / "run" / "report.json", *arms).code == code


def test_an_answer_with_logits_is_understood_and_the_cpu_tells_the_memory_of_the_process() -> None:
    class Wrapped(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = TinyLm()

        def forward(self, ids: Any) -> Any:
            class Answer:
                logits = self.inner(ids)

            return Answer()

    found = run(CausalLm(Wrapped(), list(range(WORDS)) * 4, seq_len=LENGTH, max_windows=3))
    assert len(found.windows) == 3
    assert found.memory["bare"].source in {"process", "python"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: CausalLm(TinyLm(), [1, 2, 3], seq_len=16),
        lambda: CausalLm(TinyLm(), list(range(40)), seq_len=1),
        lambda: CausalLm(TinyLm(), list(range(40)), seq_len=16, stride=0),
        lambda: CausalLm(TinyLm(), list(range(40)), seq_len=16, max_windows=0),
        lambda: MaskedLm(TinyLm(), list(range(40)), seq_len=16, mask_id=0, mask_share=0),
        lambda: Seq2SeqLm(TinyLm(), [], start_id=0),
        lambda: Seq2SeqLm(TinyLm(), [([1], [])], start_id=0),
        lambda: Classifier(TinyLm(), torch.eye(3), [0, 1]),
        lambda: Classifier(TinyLm(), torch.eye(3), [0, 1, 2], window_size=4),
        lambda: ActivationClip(0),
        lambda: SpectralCap(-1),
    ],
)
def test_what_cannot_be_measured_is_refused(make: Any) -> None:
    with pytest.raises(BadInputError):
        make()


EXAMPLES = Path(__file__).parents[4] / "examples" / "guard-overhead"
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "measure-guard-overhead.md"


@pytest.mark.parametrize(
    ("kind", "limit", "code"),
    [
        ("causal", 0.5, 1),
        ("causal", 1e6, 3),
        ("masked", 0.5, 1),
        ("seq2seq", 0.5, 1),
        ("accuracy", 0.01, 1),
    ],
)
def test_the_examples_run(
    gatemark: Any, tmp_path: Path, kind: str, limit: float, code: int
) -> None:
    (tmp_path / "torch_models.py").write_text((EXAMPLES / "torch_models.py").read_text())
    config = tmp_path / "overhead.yaml"
    config.write_text(
        f"gatemark_overhead: 1\ntarget: {{python: 'torch_models:{kind}'}}\n"
        f"options: {{limit: {limit}}}\nseeds: {{torch: 3}}\nbatch_size: 4\nout: run\n"
    )
    ran = gatemark("overhead", "run", config, "--json")
    assert ran.code == code, ran.err
    found = ran.json["guard_overhead"]
    assert found["metric_kind"] == ("accuracy" if kind == "accuracy" else f"ppl_{_short(kind)}")
    assert (found["bare_ppl"] or 1) < 2
    assert (found["bare_accuracy"] or 1) > 0.8
    assert found["checks"]["overhead.windows"] == found["checks"]["overhead.tokens"] == "pass"


def _short(kind: str) -> str:
    return {"masked": "mlm"}.get(kind, kind)


@pytest.mark.parametrize(("limit", "code"), [(5.2, 0), (0.5, 1), (1_000_000, 3)])
def test_a_new_user_measures_own_hooks_as_the_page_says(
    gatemark: Any, tmp_path: Path, limit: float, code: int
) -> None:
    blocks = dict(re.findall(r'```\w+ title="(tiny[^"]*)"\n(.*?)```', PAGE.read_text(), re.DOTALL))
    assert set(blocks) == {"tiny_model.py", "tiny.yaml"}
    for name, text in blocks.items():
        (tmp_path / name).write_text(text.replace("limit: 5.2", f"limit: {limit}"))
    ran = gatemark("overhead", "run", tmp_path / "tiny.yaml", "--json")
    assert ran.code == code, ran.err
    assert (ran.json["guard_overhead"]["windows"], ran.json["guard_overhead"]["tokens"]) == (
        211,
        211 * 51,
    )
    assert ran.json["axes"]["install"]["overhead"] > 0


def test_each_kind_gives_the_loss_of_its_windows_alone_or_in_batches() -> None:
    torch.manual_seed(2)
    model = TinyLm()
    tokens = torch.randint(0, WORDS - 1, (4 * LENGTH,)).tolist()
    masked = MaskedLm(model, tokens, seq_len=LENGTH, mask_id=WORDS - 1, mask_share=0.25)
    row, places = masked.windows()[0].data
    shown = row.clone()
    shown[places] = WORDS - 1
    with torch.no_grad():
        shares = torch.log_softmax(model(shown.unsqueeze(0))[0], dim=-1)
    outcome = masked.evaluate(masked.windows()[0])
    assert outcome.tokens == len(set(places.tolist())) == 4
    assert outcome.loss == pytest.approx(float(-shares[places, row[places]].mean()), rel=1e-5)
    again = MaskedLm(model, tokens, seq_len=LENGTH, mask_id=WORDS - 1, mask_share=0.25)
    assert [one.content for one in again.windows()] == [one.content for one in masked.windows()]

    class Shifted(torch.nn.Module):  # type: ignore[name-defined,misc]
        """Sure of the source word, unless the word before is the start."""

        def forward(self, source: Any, shown: Any) -> Any:
            sure = torch.nn.functional.one_hot(source, WORDS).float() * 50
            return sure * (shown != 0).unsqueeze(-1)

    pairs = [([3, 4], [3, 4]), ([6, 5, 7], [6, 5, 7]), ([5, 6], [5, 7])]
    translated = Seq2SeqLm(Shifted(), pairs, start_id=0)
    first, longer, second = translated.evaluate_batch(translated.windows())
    assert (longer.tokens, longer.loss) == (3, pytest.approx(math.log(WORDS) / 3))
    # The first place is a guess among all words, the second is right or all wrong.
    assert (first.tokens, first.loss) == (2, pytest.approx(math.log(WORDS) / 2))
    assert second.loss == pytest.approx((math.log(WORDS) + 50) / 2)
    inputs = torch.eye(4).repeat(3, 1)
    counted = Classifier(torch.nn.Identity(), inputs, [0, 1, 2, 0] * 3, window_size=4)
    assert counted.evaluate(counted.windows()[0]) == AccuracyCounts(correct=3, total=4)
    for one in (masked, translated, counted, target()):
        alone = [one.evaluate(window) for window in one.windows()]
        together = one.evaluate_batch(one.windows())
        for left, right in zip(alone, together, strict=True):
            assert isinstance(left, Loss) is isinstance(right, Loss)
            assert getattr(left, "loss", 0) == pytest.approx(getattr(right, "loss", 0), rel=1e-5)
            assert getattr(left, "correct", 0) == getattr(right, "correct", 0)


def test_one_guard_is_installed_alone() -> None:
    found = run(target([ActivationClip(0.01), ActivationClip(1e6, name="wide")]))
    tight, wide = found.guard_runs
    assert (tight.name, wide.name) == ("clip", "wide")
    assert tight.shift != pytest.approx(0.0, abs=1e-3)
    assert wide.shift == pytest.approx(0.0, abs=1e-5)
