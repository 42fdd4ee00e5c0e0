"""PyTorch models as targets; needs the extra ``torch``.

    target = CausalLm(model, token_ids, seq_len=128, guards=[ActivationClip(8.0)])

``CausalLm`` and ``MaskedLm`` cut windows from one sequence of token ids, ``Seq2SeqLm`` and
``Classifier`` take pairs. A model returns logits, or something with ``logits``. A guard is an
object with ``name``, ``install(model)`` and ``remove(model)``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError, UsageError, not_installed
from gatemark.plugins.overhead.records import MetricKind
from gatemark.plugins.overhead.targets.port import AccuracyCounts, EvidenceWindow, Loss, PassSeeds

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


class TorchTarget:
    """A PyTorch model with its guards: everything but the windows and what they are worth.

    The state is ``state_dict`` and the buffers that are not saved in it.
    """

    kind: MetricKind
    seq_len: int
    stride: int

    def __init__(self, model: torch.nn.Module, guards: Sequence[Guard], device: str) -> None:
        self.device = device
        self.guards = tuple(guard.name for guard in guards)
        self._chain = tuple(guards)
        self._installed: tuple[Guard, ...] = ()
        self._model = model.to(device).eval()

    def evaluate(self, window: EvidenceWindow) -> Loss | AccuracyCounts:
        return self.evaluate_batch([window])[0]

    def evaluate_batch(self, windows: Sequence[EvidenceWindow]) -> Sequence[Loss | AccuracyCounts]:
        """Evaluate windows together, in as few calls of the model as their shapes allow."""
        raise NotImplementedError

    def _compute_logits(self, *inputs: torch.Tensor) -> torch.Tensor:
        answer = self._model(*(tensor.to(self.device) for tensor in inputs))
        logits: torch.Tensor = getattr(answer, "logits", answer)
        return logits.float()

    def snapshot(self) -> dict[str, torch.Tensor]:
        return {
            name: tensor.detach().to("cpu", copy=True) for name, tensor in self._state().items()
        }

    def restore(self, snapshot: dict[str, torch.Tensor]) -> None:
        self.toggle(guarded=False)
        hidden = self._list_hidden_buffers()
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
            found.update(f"{name} {module.training} {_list_patches(module)}\n".encode())
        for guard in self._chain:
            found.update(
                f"{guard.name} {_describe_guard_state(getattr(guard, '__dict__', {}))}\n".encode()
            )
        return DIGEST_PREFIX + found.hexdigest()

    def _state(self) -> dict[str, torch.Tensor]:
        return {**self._model.state_dict(), **self._list_hidden_buffers()}

    def _list_hidden_buffers(self) -> dict[str, torch.Tensor]:
        """Return buffers that are registered but not saved; evaluating may change them."""
        saved = set(self._model.state_dict())
        return {
            f"{name} (not saved)": buffer
            for name, buffer in self._model.named_buffers(remove_duplicate=False)
            if name not in saved
        }

    def toggle(self, *, guarded: bool) -> None:
        wanted = self._chain if guarded else ()
        if wanted == self._installed:
            return
        self._remove_all()
        for guard in wanted:
            guard.install(self._model)
        self._installed = wanted

    def toggle_one(self, guard: str) -> None:
        """Install one guard alone."""
        self._remove_all()
        self._installed = tuple(one for one in self._chain if one.name == guard)
        for one in self._installed:
            one.install(self._model)

    def _remove_all(self) -> None:
        for guard in reversed(self._installed):
            guard.remove(self._model)
        self._installed = ()

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
        """Return the peak of the GPU; on the CPU the peak of the process is read instead."""
        if self.device.startswith("cuda"):
            return int(torch.cuda.max_memory_allocated(self.device))
        return f"torch does not report peak memory on {self.device}"


class CausalLm(TorchTarget):
    """A causal language model over fixed windows of token ids.

    Windows are cut from ``token_ids`` (one sequence) every ``stride`` tokens; a short last one
    is left out. ``model(ids)`` maps a batch of token ids to logits.
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
        super().__init__(model, guards, device)
        self._rows = _cut(token_ids, self.seq_len, self.stride, max_windows)

    def windows(self) -> Sequence[EvidenceWindow]:
        return tuple(EvidenceWindow(_encode_content(row), row) for row in self._rows)

    def evaluate_batch(self, windows: Sequence[EvidenceWindow]) -> Sequence[Loss]:
        rows = torch.stack([window.data for window in windows])
        with torch.inference_mode():
            return _compute_losses(self._compute_logits(rows)[:, :-1], rows[:, 1:])


class MaskedLm(CausalLm):
    """A masked language model: some tokens of each window are hidden and predicted.

    ``mask_share`` of the tokens, at least one, are replaced by ``mask_id``. Which ones depends
    on ``mask_seed`` and the window's place alone, so both arms hide the same.
    """

    kind: MetricKind = "ppl_mlm"

    def __init__(
        self,
        model: torch.nn.Module,
        token_ids: Sequence[int],
        *,
        seq_len: int,
        mask_id: int,
        mask_share: float = 0.15,
        mask_seed: int = 0,
        guards: Sequence[Guard] = (),
        device: str = "cpu",
        max_windows: int | None = None,
    ) -> None:
        if not 0 < mask_share <= 1:
            raise BadInputError(f"mask_share must be in (0, 1], got {mask_share}")
        super().__init__(
            model,
            token_ids,
            seq_len=seq_len,
            guards=guards,
            device=device,
            max_windows=max_windows,
        )
        self._mask_id = mask_id
        draw = torch.Generator().manual_seed(mask_seed)
        hidden = max(1, round(mask_share * seq_len))
        self._masks = tuple(
            torch.randperm(seq_len, generator=draw)[:hidden].sort().values for _ in self._rows
        )

    def windows(self) -> Sequence[EvidenceWindow]:
        return tuple(
            EvidenceWindow(_encode_content(row) + _encode_content(mask), (row, mask))
            for row, mask in zip(self._rows, self._masks, strict=True)
        )

    def evaluate_batch(self, windows: Sequence[EvidenceWindow]) -> Sequence[Loss]:
        rows = torch.stack([window.data[0] for window in windows])
        places = torch.stack([window.data[1] for window in windows])
        shown = rows.scatter(1, places, self._mask_id)
        with torch.inference_mode():
            logits = self._compute_logits(shown)
            picked = logits.gather(
                1, places.to(logits.device).unsqueeze(-1).expand(-1, -1, logits.shape[-1])
            )
            return _compute_losses(picked, rows.gather(1, places))


class Seq2SeqLm(TorchTarget):
    """A model from one sequence to another, as pairs of source and wanted token ids.

    ``model(source, shown)`` maps source ids and the wanted ids before each place to logits;
    ``start_id`` comes before the first one.
    """

    kind: MetricKind = "ppl_seq2seq"

    def __init__(
        self,
        model: torch.nn.Module,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        *,
        start_id: int,
        guards: Sequence[Guard] = (),
        device: str = "cpu",
    ) -> None:
        if not pairs or any(not source or not wanted for source, wanted in pairs):
            raise BadInputError("pairs must be non-empty lists of source and wanted token ids")
        super().__init__(model, guards, device)
        self._start_id = start_id
        self._pairs = tuple((_list_ids(source), _list_ids(wanted)) for source, wanted in pairs)
        self.seq_len = self.stride = max(wanted.numel() for _, wanted in self._pairs)

    def windows(self) -> Sequence[EvidenceWindow]:
        return tuple(
            EvidenceWindow(
                _encode_content(source) + b"|" + _encode_content(wanted), (source, wanted)
            )
            for source, wanted in self._pairs
        )

    def evaluate_batch(self, windows: Sequence[EvidenceWindow]) -> Sequence[Loss]:
        # Pairs of equal lengths go through the model together. Padding would need a mask, and
        # not every model takes one.
        places: dict[tuple[int, ...], list[int]] = {}
        for place, window in enumerate(windows):
            places.setdefault(tuple(part.numel() for part in window.data), []).append(place)
        losses = {
            place: loss
            for alike in places.values()
            for place, loss in zip(
                alike, self._score_alike([windows[p] for p in alike]), strict=True
            )
        }
        return [losses[place] for place in range(len(windows))]

    def _score_alike(self, windows: Sequence[EvidenceWindow]) -> Sequence[Loss]:
        sources = torch.stack([window.data[0] for window in windows])
        wanted = torch.stack([window.data[1] for window in windows])
        start = torch.full((len(windows), 1), self._start_id)
        shown = torch.cat([start, wanted[:, :-1]], dim=1)
        with torch.inference_mode():
            return _compute_losses(self._compute_logits(sources, shown), wanted)


class Classifier(TorchTarget):
    """A classifier, as pairs of an input tensor and the number of the right class.

    ``model(inputs)`` maps a batch of inputs to logits over classes. A window has
    ``window_size`` pairs; a short last one is left out.
    """

    kind: MetricKind = "accuracy"

    def __init__(
        self,
        model: torch.nn.Module,
        inputs: torch.Tensor,
        labels: Sequence[int],
        *,
        window_size: int = 1,
        guards: Sequence[Guard] = (),
        device: str = "cpu",
    ) -> None:
        count = len(labels) // window_size if window_size >= 1 else 0
        if len(inputs) != len(labels) or not count:
            raise BadInputError(
                "inputs and labels must be equally many, and fill a window; "
                f"got {len(inputs)}, {len(labels)} and a window_size of {window_size}"
            )
        super().__init__(model, guards, device)
        self.seq_len = self.stride = window_size
        self._inputs = inputs.to("cpu").split(window_size)[:count]
        self._labels = _list_ids(labels).split(window_size)[:count]

    def windows(self) -> Sequence[EvidenceWindow]:
        return tuple(
            EvidenceWindow(_encode_content(data) + _encode_content(labels), (data, labels))
            for data, labels in zip(self._inputs, self._labels, strict=True)
        )

    def evaluate_batch(self, windows: Sequence[EvidenceWindow]) -> Sequence[AccuracyCounts]:
        with torch.inference_mode():
            logits = self._compute_logits(torch.cat([window.data[0] for window in windows]))
            found = logits.argmax(dim=-1).to("cpu").split(self.seq_len)
        return [
            AccuracyCounts(correct=int((one == window.data[1]).sum()), total=one.numel())
            for one, window in zip(found, windows, strict=True)
        ]


@contextmanager
def use_deterministic_algorithms() -> Iterator[None]:
    """Use deterministic algorithms of torch inside the block."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(mode=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode=before)


def _list_patches(module: torch.nn.Module) -> str:
    """Name the hooks of a module by kind and owner, and a replaced ``forward``."""
    hooks = [
        f"{kind} {getattr(hook, '__module__', '')}.{getattr(hook, '__qualname__', type(hook))}"
        for kind, found in sorted(vars(module).items())
        if kind.endswith("_hooks") and isinstance(found, dict)
        for hook in found.values()
    ]
    forward = vars(module).get("forward")
    return "; ".join([*hooks, *([f"forward {forward!r}"] if forward is not None else [])])


def _describe_guard_state(value: object) -> str:
    """Describe what a guard keeps on its own object: numbers, texts, tensors and lists of them."""
    if isinstance(value, torch.Tensor):
        return (
            f"{value.dtype}{tuple(value.shape)}{hashlib.sha256(_encode_content(value)).hexdigest()}"
        )
    if isinstance(value, dict):
        parts = (f"{key!s}: {_describe_guard_state(kept)}" for key, kept in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_describe_guard_state, value))}]"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return type(value).__qualname__


def _list_ids(values: Sequence[int]) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.int64, device="cpu").flatten()


def _encode_content(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a tensor that identify a window."""
    plain = tensor.to("cpu").contiguous()
    if plain.dtype == torch.int64:
        return bytes(plain.numpy().astype("<i8").tobytes())
    return bytes(plain.flatten().view(torch.uint8).numpy().tobytes())


def _compute_losses(logits: torch.Tensor, wanted: torch.Tensor) -> list[Loss]:
    """Return the mean loss of each row over its tokens."""
    losses = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), wanted.to(logits.device), reduction="none"
    )
    return [Loss(tokens=wanted.shape[1], loss=float(row.mean())) for row in losses]


def _cut(
    token_ids: Sequence[int], seq_len: int, stride: int, max_windows: int | None
) -> tuple[torch.Tensor, ...]:
    tokens = _list_ids(token_ids)
    starts = range(0, tokens.numel() - seq_len + 1, stride)
    rows = tuple(tokens[start : start + seq_len].clone() for start in starts[:max_windows])
    if not rows:
        raise BadInputError(
            f"{tokens.numel()} tokens are too few for a window of {seq_len}; "
            "give more tokens or a smaller seq_len"
        )
    return rows
