"""The conformance suite as others have it: installed, subclassed, in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import llamaindex_marith
import marith

THEIRS = """
from llama_index.core.llms import MockLLM

from llamaindex_marith.testing import LLMConformance


class MyLLM(MockLLM):
    pass


class TestMyLLM(LLMConformance):
    def make(self, **options):
        return MyLLM(max_tokens=options.get("max_tokens"))
"""
MAKES = """
import sys
from llamaindex_marith import Marith
Marith(model='/nowhere', formula='2*a - M', terms={'a': 'A chef.'}).to_payload()
print(*sys.modules)
"""
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # none of the plugins that are installed here
SOME = "the_name_of_the_class_is_its_own or a_raw_answer_can_be_written_as_json"


def run(*arguments: str, folder: Path) -> str:
    """What Python prints where the packages are on its path, and the tests are not."""
    homes = (Path(package.__file__).parents[1] for package in (marith, llamaindex_marith))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **ALONE, "PYTHONPATH": os.pathsep.join(map(str, homes))},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_package_runs_it_in_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(THEIRS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    plugin = "-p", "pytest_asyncio.plugin"  # all that the extra `conformance` installs
    output = run("-m", "pytest", *plugin, "-q", "-rfE", "--color=no", "-k", SOME, folder=tmp_path)
    assert "1 failed, 8 passed" in output, output
    assert "FAILED test_theirs.py::TestMyLLM::test_the_name_of_the_class_is_its_own" in output
    assert "assert 'MockLLM' not in {" in output  # pytest rewrites its asserts, as those of tests


def test_making_a_model_loads_nothing_and_imports_neither_the_suite_nor_pytest(
    tmp_path: Path,
) -> None:
    modules = run("-c", MAKES, folder=tmp_path).split()
    assert "llamaindex_marith.llm" in modules
    assert not {"torch", "transformers"} & set(modules)
    assert not [name for name in modules if name.split(".")[0] in ("pytest", "_pytest")]
    assert "llamaindex_marith.testing" not in modules


def test_the_suite_lies_in_the_package() -> None:
    folder = Path(llamaindex_marith.__file__).parent / "testing"
    for part in (folder, folder / "calls", folder / "applications"):
        files = [path for path in part.iterdir() if path.name != "__pycache__"]
        assert (part / "__init__.py").is_file()
        assert len(files) <= 12
