"""One PyTorch model of each kind, trained in a second, with a guard that clips activations."""

import torch

from gatemark.plugins.overhead.targets.torch_adapter import (
    ActivationClip,
    CausalLm,
    Classifier,
    MaskedLm,
    Seq2SeqLm,
)

WORDS, WIDTH, STEPS = 16, 24, 150
MASK = START = WORDS


class Neighbours(torch.nn.Module):
    """Predict each word from the words on both sides of it."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS + 1, WIDTH)
        self.out = torch.nn.Linear(2 * WIDTH, WORDS)

    def forward(self, ids):
        words = self.embed(ids)
        sides = torch.cat([words.roll(1, dims=1), words.roll(-1, dims=1)], dim=-1)
        return self.out(sides)


class Translator(torch.nn.Module):
    """Predict a word from the source word at its place and the word before it."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS + 1, WIDTH)
        self.out = torch.nn.Linear(2 * WIDTH, WORDS)

    def forward(self, source, shown):
        return self.out(torch.cat([self.embed(source), self.embed(shown)], dim=-1))


def walk(count):
    """Words that mostly count upwards."""
    leaps = (torch.rand(count) < 0.1) * torch.randint(WORDS, (count,))
    return (torch.arange(count) + leaps.cumsum(0)).remainder(WORDS)


def fit(model, predict, wanted):
    """Train by Adam."""
    steps = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(STEPS):
        steps.zero_grad()
        loss = torch.nn.functional.cross_entropy(predict(), wanted)
        loss.backward()
        steps.step()
    return model


def causal(options, seeds):
    torch.manual_seed(seeds.torch)
    ids = walk(11_000)
    model = torch.nn.Sequential(torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, WORDS))
    fit(model, lambda: model(ids[:-1]), ids[1:])
    return CausalLm(model, ids.tolist(), seq_len=52, guards=[ActivationClip(options["limit"])])


def masked(options, seeds):
    torch.manual_seed(seeds.torch)
    ids = walk(70_000)
    rows = ids[:20_000].reshape(-1, 50)
    model = Neighbours()
    fit(model, lambda: model(rows).flatten(0, 1), rows.flatten())
    guards = [ActivationClip(options["limit"])]
    return MaskedLm(model, ids.tolist(), seq_len=250, mask_id=MASK, guards=guards)


def seq2seq(options, seeds):
    torch.manual_seed(seeds.torch)
    source = walk(12_000).reshape(-1, 50)
    # Each word becomes the next one, but for one in twenty.
    wanted = (source + 1 + (torch.rand(source.shape) < 0.05)).remainder(WORDS)
    shown = torch.cat([torch.full((len(wanted), 1), START), wanted[:, :-1]], dim=1)
    model = Translator()
    fit(model, lambda: model(source, shown).flatten(0, 1), wanted.flatten())
    pairs = list(zip(source.tolist(), wanted.tolist(), strict=True))
    return Seq2SeqLm(model, pairs, start_id=START, guards=[ActivationClip(options["limit"])])


def accuracy(options, seeds):
    torch.manual_seed(seeds.torch)
    labels = torch.randint(4, (2_000,))
    inputs = torch.nn.functional.one_hot(labels, 4) + 0.5 * torch.randn(2_000, 4)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 4)
    )
    fit(model, lambda: model(inputs), labels)
    guards = [ActivationClip(options["limit"])]
    return Classifier(model, inputs, labels.tolist(), window_size=10, guards=guards)
