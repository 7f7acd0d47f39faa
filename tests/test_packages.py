"""The three distributions have one version and one license, and all files name one address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import marith

ROOT = Path(__file__).parents[1]
FILES = ["pyproject.toml", "CITATION.cff", "SECURITY.md", ".github/**/*.*", "packages/**/*.*"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = {"langchain-marith": "langchain", "llama-index-llms-marith": "llamaindex"}


def test_the_version_is_that_of_marith_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    versions = {
        "pyproject.toml": PROJECT["version"],
        "CITATION.cff": re.findall(r"^version: (.+)$", citation, re.MULTILINE)[0],
        "docs/changelog.md": re.findall(r"^## \[(\d.*?)\]", changelog, re.MULTILINE)[0],
    }
    assert versions == dict.fromkeys(versions, marith.__version__)


@pytest.mark.parametrize(("name", "extra"), PACKAGES.items())
def test_a_package_needs_marith_of_its_own_version_and_has_its_license(
    name: str, extra: str
) -> None:
    folder = ROOT / "packages" / name
    package = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (package["name"], package["version"]) == (name, marith.__version__)
    assert package["dependencies"] == [f"marith[{extra}]=={marith.__version__}"]
    assert package["requires-python"] == PROJECT["requires-python"]
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_all_files_name_the_address_of_the_source() -> None:
    files = [file for pattern in FILES for file in ROOT.glob(pattern) if file.is_file()]
    address = re.compile(r"https://github\.com/[\w-]+/marith\b")
    named = {file: {*address.findall(file.read_text(encoding="utf-8"))} for file in files}
    assert {*filter(None, map(frozenset, named.values()))} == {
        frozenset({PROJECT["urls"]["Source"]})
    }
