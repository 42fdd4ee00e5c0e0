"""A PyTorch causal language model as a target; needs the extra ``torch``.

    target = CausalLm(model, token_ids, seq_len=128, guards=[ActivationClip(8.0)])

``model`` is a module that maps a batch of token ids to logits, or to something with ``logits``.
A guard is an object with ``name``, ``install(model)`` and ``remove(model)``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError, UsageError, not_installed
from gatemark.exams.overhead.records import MetricKind
from gatemark.exams.overhead.targets.port import EvidenceWindow, Loss, PassSeeds

try:
    import torch
except ModuleNotFoundError as error:
    raise UsageError(not_installed("the PyTorch adapter needs", "torch", "torch")) from error

if TYPE_CHECKING:
    from collections.abc import Iterator


class Guard(Protocol):
    """One guard of the chain. ``remove`` undoes hooks; weights come back by ``restore``."""

    name: str

    def install(self, model: torch.nn.Module) -> None:
        """Install the guard."""

    def remove(self, model: torch.nn.Module) -> None:
        """Remove the guard."""


class ActivationClip:
    """Clip the output of every linear layer to [-limit, limit]."""

    def __init__(self, limit: float, name: str = "clip") -> None:
        if not limit > 0:
            raise BadInputError(f"activation clip: limit must be > 0, got {limit}")
        self.name = name
        self._limit = limit
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []

    def install(self, model: torch.nn.Module) -> None:
        """Hook every linear layer."""
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                self._hooks.append(module.register_forward_hook(self._clip))

    def remove(self, model: torch.nn.Module) -> None:  # noqa: ARG002 - the hooks know their layers
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _clip(
        self, _module: torch.nn.Module, _inputs: object, output: torch.Tensor
    ) -> torch.Tensor:
        return output.clamp(-self._limit, self._limit)


class SpectralCap:
    """Scale weight matrices down until no singular value exceeds the cap."""

    def __init__(self, cap: float, name: str = "spectral_cap") -> None:
        if not cap > 0:
            raise BadInputError(f"spectral cap: cap must be > 0, got {cap}")
        self.name = name
        self._cap = cap

    def install(self, model: torch.nn.Module) -> None:
        """Scale the weights of every linear layer; only a restore brings them back."""
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, torch.nn.Linear):
                    largest = float(torch.linalg.matrix_norm(module.weight.float(), 2))
                    if largest > self._cap:
                        module.weight.mul_(self._cap / largest)

    def remove(self, model: torch.nn.Module) -> None:
        """Do nothing; ``restore`` brings the weights back."""


class CausalLm:
    """A causal language model over fixed windows of token ids.

    The state is ``state_dict`` and the buffers that are not saved in it.
    Windows are cut from ``token_ids`` (one sequence) every ``stride`` tokens; a short last one
    is left out.
    """

    kind: MetricKind = "ppl_causal"

    def __init__(
        self,
        model: torch.nn.Module,
        token_ids: Sequence[int],
        *,
        seq_len: int,
        stride: int | None = None,
        guards: Sequence[Guard] = (),
        device: str = "cpu",
        max_windows: int | None = None,
    ) -> None:
        self.seq_len = seq_len
        self.stride = seq_len if stride is None else stride
        if seq_len < 2 or self.stride < 1:
            raise BadInputError(f"seq_len must be >= 2 and stride >= 1, got {seq_len}, {stride}")
        if max_windows is not None and max_windows < 1:
            raise BadInputError(f"max_windows must be >= 1, got {max_windows}")
        self.device = device
        self.guards = tuple(guard.name for guard in guards)
        self._chain = tuple(guards)
        self._installed = False
        self._model = model.to(device).eval()
        self._rows = _cut(token_ids, self.seq_len, self.stride, max_windows)

    def windows(self) -> Sequence[EvidenceWindow]:
        return tuple(
            EvidenceWindow(row.to(torch.int64).numpy().astype("<i8").tobytes(), row)
            for row in self._rows
        )

    def snapshot(self) -> dict[str, torch.Tensor]:
        return {
            name: tensor.detach().to("cpu", copy=True) for name, tensor in self._state().items()
        }

    def restore(self, snapshot: dict[str, torch.Tensor]) -> None:
        self.toggle(guarded=False)
        hidden = self._hidden_buffers()
        kept = {name: tensor for name, tensor in snapshot.items() if name not in hidden}
        # Strict, so that a missing name is an error and not a half restored state.
        self._model.load_state_dict(kept, strict=True)
        with torch.no_grad():
            for name, buffer in hidden.items():
                buffer.copy_(snapshot[name])

    def fingerprint(self) -> str:
        found = hashlib.sha256()
        for name, tensor in sorted(self._state().items()):
            plain = tensor.detach().to("cpu").contiguous()
            found.update(f"{name}{tuple(plain.shape)}{plain.dtype}".encode())
            found.update(plain.flatten().view(torch.uint8).numpy().tobytes())
        for name, module in self._model.named_modules():
            found.update(f"{name} {module.training} {_patches(module)}\n".encode())
        return DIGEST_PREFIX + found.hexdigest()

    def _state(self) -> dict[str, torch.Tensor]:
        return {**self._model.state_dict(), **self._hidden_buffers()}

    def _hidden_buffers(self) -> dict[str, torch.Tensor]:
        """Return buffers that are registered but not saved; evaluating may change them."""
        saved = set(self._model.state_dict())
        return {
            f"{name} (not saved)": buffer
            for name, buffer in self._model.named_buffers(remove_duplicate=False)
            if name not in saved
        }

    def toggle(self, *, guarded: bool) -> None:
        if guarded == self._installed:
            return
        for guard in self._chain if guarded else reversed(self._chain):
            if guarded:
                guard.install(self._model)
            else:
                guard.remove(self._model)
        self._installed = guarded

    def evaluate(self, window: EvidenceWindow) -> Loss:
        row = window.data.to(self.device).unsqueeze(0)
        with torch.inference_mode():
            answer = self._model(row)
            logits = getattr(answer, "logits", answer)[0, :-1].float()
            loss = torch.nn.functional.cross_entropy(logits, row[0, 1:], reduction="mean")
        return Loss(tokens=row.shape[1] - 1, loss=float(loss))

    def reseed(self, seeds: PassSeeds) -> None:
        """Seed the CPU and every GPU."""
        if seeds.torch is not None:
            torch.manual_seed(seeds.torch)
            if torch.cuda.is_available():
                torch.cuda.manual_seed_all(seeds.torch)

    def start_memory(self) -> None:
        """Reset the peak of the GPU."""
        if self.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak_memory(self) -> int | str:
        """Return the peak of the GPU; torch has none for the CPU."""
        if self.device.startswith("cuda"):
            return int(torch.cuda.max_memory_allocated(self.device))
        return f"torch does not report peak memory on {self.device}"


@contextmanager
def deterministic() -> Iterator[None]:
    """Use deterministic algorithms of torch inside the block."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(mode=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode=before)


def _patches(module: torch.nn.Module) -> str:
    """Name the hooks of a module by kind and owner, and a replaced ``forward``."""
    hooks = [
        f"{kind} {getattr(hook, '__module__', '')}.{getattr(hook, '__qualname__', type(hook))}"
        for kind, found in sorted(vars(module).items())
        if kind.endswith("_hooks") and isinstance(found, dict)
        for hook in found.values()
    ]
    forward = vars(module).get("forward")
    return "; ".join([*hooks, *([f"forward {forward!r}"] if forward is not None else [])])


def _cut(
    token_ids: Sequence[int], seq_len: int, stride: int, max_windows: int | None
) -> tuple[torch.Tensor, ...]:
    tokens = torch.as_tensor(token_ids, dtype=torch.int64, device="cpu").flatten()
    starts = range(0, tokens.numel() - seq_len + 1, stride)
    rows = tuple(tokens[start : start + seq_len].clone() for start in starts[:max_windows])
    if not rows:
        raise BadInputError(
            f"{tokens.numel()} tokens are too few for a window of {seq_len}; "
            "give more tokens or a smaller seq_len"
        )
    return rows
