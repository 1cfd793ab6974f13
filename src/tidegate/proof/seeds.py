"""Every promise of the presets, with the tests that prove it: the work of `tidegate seeds`.

The marker `@pytest.mark.seed("COW-05")` ties a test to a row; it is read from the source of tests/ without importing
it. `--run` runs exactly the marked tests: a row is `proved` if it has a test and all of its tests passed, `failing` if
one did not, `open` if it has none. A row that `waits` for a missing part of the product stays open although it has
tests.
"""

import ast
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

SeedState = Literal["proved", "failing", "open"]
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Seed(msgspec.Struct):
    id: str
    text: str
    tests: list[str] = []
    state: SeedState | None = None
    waits: str = ""


def load_seeds() -> list[Seed]:
    text = resources.files("tidegate").joinpath("data", "seeds.json").read_bytes()
    return msgspec.json.decode(text, type=list[Seed])


def find_checkout() -> Path | None:
    """Return the root of the checkout that this package runs from, or None."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "pyproject.toml").is_file() and (root / "tests").is_dir() else None


def link_tests(rows: Sequence[Seed], root: Path) -> list[str]:
    """Give each row its tests. Return the ids that tests name but no row has."""
    by_id = {row.id: row for row in rows}
    unknown: list[str] = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        place = path.relative_to(root).as_posix()
        for test, ident in find_marked_tests(ast.parse(path.read_bytes()), place):
            if ident not in by_id:
                unknown.append(f"{ident} ({test})")
            elif test not in by_id[ident].tests:
                by_id[ident].tests.append(test)
    return unknown


def find_marked_tests(tree: ast.Module, path: str) -> Iterator[tuple[str, str]]:
    """Yield (test, row id) for each marked test of a file. A mark on a class or on `pytestmark` holds for all its
    tests."""

    def walk(body: Sequence[ast.stmt], prefix: str, above: list[str]) -> Iterator[tuple[str, str]]:
        around = above + [ident for node in body if _is_pytestmark(node) for ident in _find_seed_ids(node)]
        for node in body:
            if not isinstance(node, _Scope):
                continue
            idents = around + [ident for decorator in node.decorator_list for ident in _find_seed_ids(decorator)]
            name = f"{prefix}::{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, name, idents)
            elif node.name.startswith("test"):
                yield from ((name, ident) for ident in dict.fromkeys(idents))

    return walk(tree.body, path, [])


def _is_pytestmark(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in targets)


def _find_seed_ids(node: ast.AST) -> list[str]:
    """Return the ids in every `...mark.seed("ID", ...)` of this source, also in marks of single parameters."""
    return [
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("mark.seed")
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def run_seed_tests(rows: Sequence[Seed], root: Path) -> str:
    """Run the marked tests and set the state of each row. Return the output of pytest."""
    files = sorted({test.partition("::")[0] for row in rows for test in row.tests})
    results: dict[str, bool] = {}
    output = "no test is marked"
    if files:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            # One file that does not load must not keep the others from being run.
            quiet = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors")
            command = [sys.executable, "-m", "pytest", *quiet, "-m", "seed", f"--junitxml={report}", *files]
            process = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
            output = (process.stdout + process.stderr).strip()
            results = read_test_results(report) if report.is_file() else {}
    for row in rows:
        if not row.tests:
            row.state = "open"
        else:
            sound = all(results.get(name_in_report(test), False) for test in row.tests)
            row.state = "failing" if not sound else "open" if row.waits else "proved"
    return output


def read_test_results(report: Path) -> dict[str, bool]:
    """Return whether each test passed, with all of its parameters. A skipped test proves nothing."""
    results: dict[str, bool] = {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name', '').split('[')[0]}"
        clean = not any(child.tag in ("failure", "error", "skipped") for child in case)
        results[name] = results.get(name, True) and clean
    return results


def name_in_report(test: str) -> str:
    """Return the name of a test as the JUnit report spells it."""
    path, _, inside = test.partition("::")
    return f"{path.removesuffix('.py').replace('/', '.')}.{inside.replace('::', '.')}"


def format_seeds(rows: Sequence[Seed], *, as_json: bool) -> str:
    if as_json:
        keys = ("id", "text", "tests", "state")
        return json.dumps([{key: getattr(row, key) for key in keys} for row in rows], indent=2, ensure_ascii=False)
    lines = []
    for row in rows:
        state = f"{row.state:8}" if row.state else ""
        lines.append(f"{row.id}  {state}{row.text}")
        lines += [f"        {test}" for test in row.tests]
        lines += [f"        waits for {row.waits}"] if row.waits else []
    tied = sum(bool(row.tests) for row in rows)
    states = [row.state for row in rows]
    tail = "".join(f", {states.count(name)} {name}" for name in ("proved", "failing", "open") if any(states))
    return "\n".join([*lines, "", f"{len(rows)} rows, {tied} with tests{tail}"])
