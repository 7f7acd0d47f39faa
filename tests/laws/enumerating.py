"""Every path of the draft window for all set-ups, all factors up to 3 among them: a table.

    PYTHONPATH=tests .venv/bin/python -m laws.enumerating

The suite follows those that are quick; here each of them says how many paths and states it has,
and the largest difference between a text's probability and the composed law's.
"""

from __future__ import annotations

import time

from support.enumeration import Enumeration, Sweep
from support.window_driver import Driver
from support.window_setups import every_setup


def main() -> None:
    sweep, worst = Sweep(), 0.0
    print(f"{'':45} {'paths':>12} {'states':>7} {'error':>8} {'seconds':>8}")
    for name, setup in every_setup().items():
        start = time.process_time()
        found = Enumeration(Driver(setup), sweep)
        worst = max(worst, error := found.error())
        seconds = time.process_time() - start
        print(f"{name:45} {found.ends.paths:12} {len(found.states):7} {error:8.1e} {seconds:8.2f}")
    print(f"largest error {worst:.1e}")


if __name__ == "__main__":
    main()
