"""Whether llama.cpp may repack weights for this processor: tried once, in a process of its own."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.metadata import version

from marith.scoring.layouts.kept_counts import kept

_TRIAL = """
import sys
from marith.scoring.llama_cpp.ggml_context import GGMLContext, Item
from marith.scoring.llama_cpp.ggml_model import GGMLModel
path, threads = sys.argv[1], int(sys.argv[2])
context = GGMLContext(GGMLModel(path, threads=threads, repacked=True, accelerated=False))
for count in (1, 4, 64):
    context.decode([Item(i, i, 0, True) for i in range(count)])
    context.drop(0)
"""
_log = logging.getLogger(__name__)


def may_repack(path: str, formats: str, threads: int) -> bool:
    """Whether a process that reads this file from repacked weights ends well.

    Where it crashes, as with Q8_0 on processors with AMX, weights stay as the file has them. Kept
    for the next process, by the processor, llama.cpp's release and the `formats` of the file.
    """

    def tried() -> int:
        _log.info("a process tries llama.cpp's repacked weights of %r, once on this machine", path)
        command = [sys.executable, "-c", _TRIAL, path, str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            _log.warning("llama.cpp's repacked weights of %r stay off: %s", path, _end(done))
        return int(done.returncode == 0)

    what = f"llama-cpp-python {version('llama-cpp-python')} repacks {formats}"
    return bool(kept(what, (0, 1), tried))


def _end(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"the process ended by signal {-done.returncode}"
    return (done.stderr.strip() or "without a word").splitlines()[-1]
