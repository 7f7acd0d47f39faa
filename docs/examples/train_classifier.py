"""Train a classifier of how answers begin on generated data, and use it as a term of a formula."""

import json
from itertools import product
from pathlib import Path

import marith
from marith.training import Settings, train

BEGINNINGS = {
    "warm": ("Happy to help. ", "Let me see. ", "Thank you for asking. ", "Alright. ", "Sure! "),
    "dry": ("In general, ", "To begin with, ", "It seems that ", "Basically, ", "You could say "),
}
REST = "you should start early.", "it is best in the morning.", "music makes it faster."
QUESTION = "Can you help me with my order?"


def main() -> None:
    rows = [
        {"text": f"{beginning}{first} {second.capitalize()}", "label": label}
        for label, beginnings in BEGINNINGS.items()
        for beginning, first, second in product(beginnings, REST, REST)
    ]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = Path("warmth")
    train(Settings("pocket-toxicity", Path("rows.jsonl"), out, epochs=10, rate=5e-3)).show(out)
    terms = {"C": marith.Classifier("warmth", label="warm", candidates=20)}
    with marith.Engine.load("pocket") as engine:
        for formula in ("M", "M + C"):
            for seed in range(3):
                sampling, stop = marith.Sampling(seed=seed), marith.Stop(max_tokens=12)
                answer = engine.generate(QUESTION, formula, terms, sampling, stop)
                print(f"{formula:<6} {answer.text}")


if __name__ == "__main__":
    main()
