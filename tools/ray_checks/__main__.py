"""Check replicas of a server on a cluster of this machine: `python -m tools.ray_checks`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tools.ray_checks import cluster, serve_checks
from tools.ray_checks.checking import run_all


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "marith.toml"
        file.write_text(cluster.PERSONAS, encoding="utf-8")
        # The workers inherit this variable.
        os.environ["MARITH_FILE"] = str(file)
        failed = run_all([serve_checks.the_example_asks_two_replicas])
        with cluster.cluster():
            return failed + check_replicas(file)


def check_replicas(file: Path) -> int:
    example = cluster.example()
    affinity = serve_checks.Affinity(example)
    with (
        cluster.alone(file),
        cluster.replicas("two", example.app(example.Replicas(least=2, most=2))),
    ):
        failed = run_all(serve_checks.CHECKS)
        affinity.measure()

    def load_brings_another_replica() -> str:
        return serve_checks.load_brings_another_replica(example)

    rest = [affinity.a_session_stays_where_its_prompt_is_cached, load_brings_another_replica]
    return failed + run_all(rest)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
