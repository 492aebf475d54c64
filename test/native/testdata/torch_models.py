"""Makes TorchScript models in the folder that it is given, each with requests and torch's own answers to them."""

import json
import os
import sys
from typing import Dict, List, Tuple

import torch


class Vision(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 16, 3, stride=2)
        self.last = torch.nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.second(x)).mean([2, 3])
        return torch.softmax(self.last(x), 1)


class Sequence(torch.nn.Module):
    """A recurrent cell: the state comes in and goes out."""

    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 8)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, x, start, state):
        state = self.cell(x, state * (1 - start))
        return self.last(state), state


class Text(torch.nn.Module):
    """Says of which of three kinds a text is, by its characters."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.EmbeddingBag(256, 16, mode="mean")
        self.last = torch.nn.Linear(16, 3)
        self.labels = ["question", "order", "Größe"]

    def forward(self, text: List[str]) -> Tuple[torch.Tensor, List[str]]:
        characters: List[int] = []
        begins: List[int] = []
        for one in text:
            begins.append(len(characters))
            for character in one:
                characters.append(ord(character) % 256)
        scores = self.last(self.embedding(torch.tensor(characters), torch.tensor(begins)))
        best: List[str] = []
        for i in range(len(text)):
            best.append(self.labels[int(scores[i].argmax().item())])
        return scores, best


class Named(torch.nn.Module):
    def forward(self, minuend, subtrahend):
        return minuend - subtrahend


class Dictionary(torch.nn.Module):
    def forward(self, values: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        return {"sum": values["a"] + values["b"], "product": values["a"] * values["b"]}


class Parts(torch.nn.Module):
    """Fails for some inputs, and answers another data type for others."""

    def forward(self, x):
        if x.sum().item() > 100:
            raise ValueError("too much")
        if x.sum().item() < 0:
            return x.double()
        return x


def plain(value):
    return value.tolist() if isinstance(value, torch.Tensor) else value


def write(folder, name, model, calls):
    """Write a model, and calls: lists of the inputs by name, as plain values, with the outputs in their order."""
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    model = torch.jit.script(model.eval())  # in which the characters of a string are its bytes
    model.save(os.path.join(folder, name, "model.pt"))
    cases = []
    for call in calls:
        with torch.no_grad():
            answer = model(*call.values()) if name != "dictionary" else model(call)
        if isinstance(answer, dict):
            answer = [answer["product"], answer["sum"]]
        if not isinstance(answer, tuple) and not isinstance(answer, list):
            answer = (answer,)
        cases.append({"inputs": {k: plain(v) for k, v in call.items()}, "outputs": [plain(a) for a in answer]})
    with open(os.path.join(folder, name, "cases.json"), "w") as file:
        json.dump(cases, file)


def main(folder):
    torch.manual_seed(23)
    write(folder, "vision", Vision(), [{"x": torch.randn(n, 3, 32, 32)} for n in (1, 3, 2)])
    steps, state, cell = [], torch.zeros(1, 8), Sequence()
    for step in range(5):
        steps.append({"x": torch.randn(1, 4), "start": torch.full((1, 1), 1.0 * (step == 0)), "state": state})
        with torch.no_grad():
            state = cell(*steps[-1].values())[1]
    write(folder, "sequence", cell, steps)
    texts = [["What is it?"], ["Do it!", "Größe 10 €"], ["a", "b", "longer text"]]
    write(folder, "text", Text(), [{"text": text} for text in texts])
    write(folder, "named", Named(), [{"minuend": torch.randn(2, 3), "subtrahend": torch.randn(2, 3)}])
    write(folder, "dictionary", Dictionary(), [{"a": torch.randn(1, 3), "b": torch.randn(1, 3)}])
    write(folder, "parts", Parts(), [{"x": torch.ones(1, 3)}])
    torch.save(Named().state_dict(), os.path.join(folder, "weights.pt"))


main(sys.argv[1])
