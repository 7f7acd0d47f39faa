"""Use the engine alone: explain a formula, stream an answer, and compare it with the bare model."""

import marith

TERMS = {"formal": "Write formally."}
FORMULA = "2*formal - M"
QUESTION = "Can you help me with my order?"


def main() -> None:
    print(marith.explain(FORMULA, TERMS))
    with marith.Engine.load("pocket") as engine:
        sampling = marith.Sampling(temperature=0.7, top_p=0.9, seed=1)
        stop = marith.Stop(max_tokens=24)
        for chunk in engine.stream(QUESTION, FORMULA, TERMS, sampling, stop):
            print(chunk.text, end="", flush=True)
        print()
        answer = " Certainly."
        for formula in ("M", FORMULA):
            total = sum(engine.score(QUESTION, answer, formula, TERMS))
            print(f"log P({answer!r}) is {total:.2f} under {formula}")


if __name__ == "__main__":
    main()
