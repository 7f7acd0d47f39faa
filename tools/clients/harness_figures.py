"""Print the figures of lm-evaluation-harness for the tasks of a folder.

`python harness_figures.py FOLDER < RUNS > FIGURES` runs in marith's environment for the model
`marith`, and in another one for a server. RUNS are arguments of `simple_evaluate` by name. FIGURES
are the results of each run: the figures of each task, and the answer for each of its documents.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

from lm_eval import evaluator, simple_evaluate
from lm_eval.tasks import TaskManager


def figures(folder: str, model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the figures and the answers of one run."""
    tasks = TaskManager(include_path=folder, include_defaults=False)
    found = simple_evaluate(model=model, task_manager=tasks, bootstrap_iters=0, **arguments)
    return {
        task: {
            "figures": {
                name.removesuffix(",none"): value
                for name, value in result.items()
                if isinstance(value, float) and "stderr" not in name
            },
            "answers": [sample["filtered_resps"] for sample in found["samples"][task]],
        }
        for task, result in found["results"].items()
    }


def main(folder: str) -> None:
    logging.disable(logging.INFO)
    # The original asks compilers and drivers for their versions, which takes long.
    evaluator.add_env_info = lambda _: None
    runs, found = json.load(sys.stdin), {}
    if any(run["model"] == "marith" for run in runs.values()):
        # This import registers the model.
        import_module("marith.evals.harness")
    with redirect_stdout(sys.stderr):
        for name, run in runs.items():
            found[name] = figures(folder, **run)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
