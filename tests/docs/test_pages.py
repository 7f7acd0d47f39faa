"""Every block of a page runs, in the order of the page, and prints what the page says.

Generated pages have `py` and `console` blocks: signatures and help, which test_reference compares
with the code.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from inspect_ai.log import read_eval_log
from support.documents import FILES, PAGES, ROOT, blocks, name
from support.page_runs import (
    LINES_NOT_RUN,
    MODULES,
    PYTHON_NOT_RUN,
    RUN,
    here,
    needs_sockets,
    run_page,
    shell_lines,
)
from support.shell_lines import FEW, INSTEAD

from tools.reference.pages import GENERATED_NOTICE

WRITTEN = [page for page in PAGES if GENERATED_NOTICE not in page.read_text(encoding="utf-8")]
WITH_BLOCKS = [page for page in WRITTEN if any(block.kind in RUN for block in blocks(page))]
TARGETS = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name)
def test_every_block_of_a_page_runs_and_prints_what_the_page_says(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if needs_sockets(page):
        request.getfixturevalue("socket_enabled")
    run_page(page, tmp_path, monkeypatch)
    for log in tmp_path.rglob("*.eval"):  # of Inspect, whose command succeeds if a sample fails
        assert read_eval_log(str(log), header_only=True).status == "success"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_has_only_blocks_that_are_run_or_read(page: Path) -> None:
    found = blocks(page)
    run_here = RUN if page in WRITTEN else {"py", "console"}
    assert {block.kind for block in found} <= {*run_here, "text"}
    assert page.read_text(encoding="utf-8").count("```") == 2 * len(found)


def test_the_tables_are_exact() -> None:
    lines = [here(line, 0) for page in WRITTEN for line in shell_lines(page)]
    for start in (*LINES_NOT_RUN, *FEW):
        assert any(line.startswith(start) for line in lines), start
    said = [page.read_text(encoding="utf-8") for page in WRITTEN]
    for part in (*PYTHON_NOT_RUN, *INSTEAD, *FILES, *MODULES):
        assert any(part in text for text in said), part


def test_every_target_of_make_exists() -> None:
    lines = [line for page in WRITTEN for line in shell_lines(page)]
    named = {line.split()[1] for line in lines if line.startswith("make ")}
    assert named
    assert named <= set(TARGETS)
