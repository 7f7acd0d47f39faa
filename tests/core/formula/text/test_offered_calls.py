"""Functions that installed packages offer: found by name, imported when text first calls them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

import marith
from marith import FormulaError, define, parse
from marith.formula.text import calls
from marith.formula.tree.nodes import Name

MODULE = """
import marith
from marith import Formula

def halved(model: Formula, other: Formula) -> Formula:
    return 0.5 * model + 0.5 * other
"""
ASKED = """
import sys, marith
assert "{0}" not in sys.modules
marith.parse("M + a")
assert not {{"{0}", "importlib.metadata"}} & {{*sys.modules}}
print(marith.parse("halved(M, a)"))
assert not {{"torch", "transformers", "numpy"}} & {{*sys.modules}}
"""

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with entry points where Python finds packages; returns its module's name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules: list[str] = []

    def installed(package: str = "mine", code: str = MODULE, **points: str) -> str:
        module = f"{package}_methods_of_a_test"
        modules.append(module)
        lines = [f"{name} = {module}:{at}" for name, at in (points or {"halved": "halved"}).items()]
        (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        written = "\n".join(["[marith_methods]", *lines])
        (info / "entry_points.txt").write_text(written, encoding="utf-8")
        calls.offered.cache_clear()
        return module

    with patch.dict(calls.CALLS):
        yield installed
    calls.offered.cache_clear()
    for module in modules:
        sys.modules.pop(module, None)


def test_text_calls_what_a_package_offers(install: Install) -> None:
    module = install()
    assert "halved" not in calls.CALLS
    assert parse("halved(M, a)") == 0.5 * Name("M") + 0.5 * Name("a")
    assert module in sys.modules
    with pytest.raises(FormulaError, match="other of halved is a formula, not 2"):
        parse("halved(M, 2)")


def test_nothing_is_imported_until_text_calls_it(install: Install, tmp_path: Path) -> None:
    code = ASKED.format(install())
    root = Path(marith.__file__).parents[1]
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])}
    environment = {**os.environ, **path}
    for command in (["-c", code], ["-m", "marith.cli", "show", "halved(M, a)"]):
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("0.5*M + 0.5*a\n")


def test_untrusted_text_imports_no_package(install: Install) -> None:
    module = install()
    for text in ("halved(M, M)", "halvd(M, M)"):
        with pytest.raises(FormulaError, match="in a formula; there are functions such") as refused:
            parse(text, {}, trusted=False)
        assert "halved'?" not in str(refused.value)
    assert module not in sys.modules
    assert parse("halved(M, M)", {}, False, ["halved"]) == parse("halved(M, M)", {})
    assert module in sys.modules


def test_a_mistyped_name_is_compared_with_what_packages_offer(install: Install) -> None:
    install()
    with pytest.raises(FormulaError, match=r"'halvd' has no meaning .*did you mean 'halved'"):
        parse("halvd(M, a)")
    with pytest.raises(FormulaError, match=r"contains 'halvd', .*did you mean 'halved'"):
        parse("M", None, False, ["halvd"])


def test_a_name_that_has_a_meaning_keeps_it(install: Install) -> None:
    module = install(union="halved", halved="halved")
    assert parse("union(M, a)") == marith.union(Name("M"), Name("a"))

    def halved(of: marith.Formula) -> marith.Formula:
        return 0.5 * of

    define("halved", halved)
    assert parse("M + halved(a)") == Name("M") + 0.5 * Name("a")
    assert module not in sys.modules


@pytest.mark.parametrize("code", ["import nothing_of_this_name", "raise OSError('no')", "x = 1"])
def test_an_import_error_names_the_package(install: Install, code: str) -> None:
    install(code=code)
    with pytest.raises(FormulaError, match="'halved' of mine cannot be imported from") as refused:
        parse("M + halved(M, a)")
    assert "^^^^" in str(refused.value)


def test_a_name_that_two_packages_offer_is_refused(install: Install) -> None:
    install()
    install("theirs")
    with pytest.raises(FormulaError, match="several packages offer 'halved': mine, theirs"):
        parse("halved(M, a)")
