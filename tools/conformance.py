"""Write the tables of llamaindex_conformance.md: the suite, run on `Marith` and on its peers.

Run by `make peers`, which installs the peers first. It takes some minutes.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from llamaindex_marith.testing.suite import checks

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "llamaindex_conformance.md"
MARK = "<!-- From here on by `make peers`. -->"
# For each LLM: the test file that runs the suite on it, and options of pytest.
LLMS = {
    "Marith": (ROOT / "tests" / "evidence" / "test_conformance.py", ()),
    "HuggingFaceLLM": (ROOT / "peers" / "test_huggingface.py", ("-W", "ignore")),
}
LONGEST = 100  # characters of a reason

Checks = dict[str, dict[str, int]]


@dataclass
class Case:
    """One case of a check: its parameters, its outcome, and the reason of a failure or skip."""

    parameters: str
    outcome: str
    reason: str = ""


Results = dict[str, list[Case]]


def run(file: Path, options: tuple[str, ...]) -> Results:
    """Run the checks of a file; the outcomes are pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        quiet = ("--tb=no", "--no-summary")
        command = [sys.executable, "-m", "pytest", str(file), f"--junitxml={report}", *quiet]
        subprocess.run([*command, *options], cwd=ROOT, check=False)  # noqa: S603
        return read(ElementTree.parse(report))  # noqa: S314 (pytest wrote it)


def read(report: ElementTree.ElementTree) -> Results:  # type: ignore[type-arg]
    """The cases of a report, by check."""
    results: Results = {}
    for test in report.iter("testcase"):
        check, _, parameters = test.get("name", "").rstrip("]").partition("[")
        outcome, reason = "passed", ""
        for child in test:
            if child.tag in ("failure", "error", "skipped"):
                outcome, reason = child.tag, child.get("message", "")
        results.setdefault(check, []).append(Case(parameters, outcome, first_line(reason)))
    return results


def first_line(reason: str) -> str:
    """The first line of a failure, without the names of general exceptions."""
    line = reason.strip().splitlines()[0] if reason.strip() else ""
    line = re.sub(r"^[\w.]+\.(?=\w+: )", "", line)  # the module of an exception
    line = re.sub(r"^(AssertionError|Failed): ", "", line)
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def cell(cases: list[Case]) -> str:
    """A check's cell: how many of its cases failed, and why the first one did."""
    failed = [case for case in cases if case.outcome in ("failure", "error")]
    if not failed:
        skipped = all(case.outcome == "skipped" for case in cases)
        return "not offered" if skipped else "passed"
    parts = f" {len(failed)} of {len(cases)}" if len(cases) > 1 else ""
    reason = failed[0].reason.replace("|", "\\|").replace("`", "'")
    return f"**failed**{parts}: `{reason}`"


def words(check: str) -> str:
    return check.removeprefix("test_").replace("_", " ")


def summary(checks: Checks, results: dict[str, Results]) -> list[str]:
    count, cases = sum(map(len, checks.values())), sum(sum(t.values()) for t in checks.values())
    lines = [
        f"The suite has {count} checks with {cases} cases: a check runs once for each method of "
        "an LLM for which it holds.",
        "",
        "| cases | passed | failed | not offered |",
        "| --- | --- | --- | --- |",
    ]
    for name, result in results.items():
        counts = Counter(case.outcome for each in result.values() for case in each)
        failed = counts["failure"] + counts["error"]
        passed, skipped = counts["passed"], counts["skipped"]
        lines.append(f"| `{name}` | {passed} | {failed} | {skipped} |")
    return lines


def table(topic: str, names: dict[str, int], results: dict[str, Results]) -> list[str]:
    head = [f"## {topic}", "", f"| check | cases | {' | '.join(f'`{name}`' for name in results)} |"]
    lines = [*head, f"| --- | --- |{' --- |' * len(results)}"]
    for check, count in names.items():
        cells = " | ".join(cell(result.get(check, [])) for result in results.values())
        lines.append(f"| {words(check)} | {count} | {cells} |")
    return lines


def tables(checks: Checks, results: dict[str, Results]) -> str:
    parts = [summary(checks, results)]
    parts += [table(topic, names, results) for topic, names in checks.items()]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def main() -> None:
    results = {name: run(file, options) for name, (file, options) in LLMS.items()}
    written = tables(checks(), results)
    before = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(f"{before}{MARK}\n\n{written}", encoding="utf-8")
    print(written)


if __name__ == "__main__":
    main()
