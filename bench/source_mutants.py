"""Change the engine in one place at a time, at random, and see whether the tests notice.

    python bench/source_mutants.py list [--seed 38] [--count 200]
    python bench/source_mutants.py run --coverage FILE --durations FILE --report FILE [--jobs 2] [--only 3,17]
    python bench/source_mutants.py run --at COMMIT --only 3,17 --tests "tests/core tests/laws" --report FILE

A mutant is one small change of `core`, `wire`, `session`, `store` or `gateway`: a comparison, an operator, a number,
a condition, a statement that is left out. `list` prints them; the same seed and source give the same ones.

`run` copies the repository once for each job and tries one mutant after the other. Only tests that execute the
changed line are run, the quickest first, until one fails. Which tests these are comes from a run with contexts:

    make coverage ARGS="..."   # writes build/coverage/data and build/coverage/durations.xml

With `--tests`, these tests are run instead, in this order. With `--at`, the mutants are those of an earlier commit, and
each is made where its line is now; one whose line is gone is reported as `gone`.

The report is a JSON file that grows with each mutant, so an interrupted run continues where it stopped. A mutant that
makes a test hang counts as killed.
"""

import argparse
import ast
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["core", "wire", "session", "store", "gateway"]
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "is": "is not"}
OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
}
CALLS_LEFT_OUT = ("append", "add", "update", "extend", "pop", "clear", "close", "write", "remove", "discard")
TESTS_A_RUN = 400
SECONDS_A_MUTANT = 1800


class Change(NamedTuple):
    """`old` at a place of the source becomes `new`. Columns are in characters, lines count from 1."""

    file: str
    line: int
    column: int
    old: str
    new: str
    kind: str


def find_changes(path: Path, root: Path = ROOT) -> Iterator[Change]:
    """Yield every change that can be made to a module."""
    source = path.read_text("utf-8")
    lines = source.splitlines(keepends=True)
    name = path.relative_to(root).as_posix()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from _replace_between(name, lines, node.left, node.comparators[0], COMPARISONS, "comparison")
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not _has_text(node):
            old, new = OPERATORS[type(node.op)]
            yield from _replace_between(name, lines, node.left, node.right, {old: new}, "operator")
        elif isinstance(node, ast.BoolOp):
            swap = {"and": "or"} if isinstance(node.op, ast.And) else {"or": "and"}
            yield from _replace_between(name, lines, node.values[0], node.values[1], swap, "condition")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from _replace_at(name, lines, node, "not ", "", "condition")
        elif isinstance(node, ast.Constant):
            yield from _change_constant(name, lines, node)
        elif isinstance(node, ast.If | ast.While):
            yield from _negate(name, lines, node.test)
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield from _replace_at(name, lines, node.value, _text_of(lines, node.value), "None", "return")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Attribute) and function.attr in CALLS_LEFT_OUT:
                yield from _replace_at(name, lines, node, _text_of(lines, node), "pass", "statement")
        elif isinstance(node, ast.Continue | ast.Break):
            yield from _replace_at(name, lines, node, _text_of(lines, node), "pass", "statement")


def _change_constant(name: str, lines: list[str], node: ast.Constant) -> Iterator[Change]:
    old = _text_of(lines, node)
    if node.value is True or node.value is False:
        yield from _replace_at(name, lines, node, old, str(not node.value), "constant")
    elif isinstance(node.value, int | float) and old:
        yield from _replace_at(name, lines, node, old, f"({old} + 1)", "constant")


def _negate(name: str, lines: list[str], test: ast.expr) -> Iterator[Change]:
    text = _text_of(lines, test)
    yield from _replace_at(name, lines, test, text, f"not ({text})", "condition")


def _replace_between(
    name: str, lines: list[str], left: ast.expr, right: ast.expr, swap: dict[str, str], kind: str
) -> Iterator[Change]:
    """Change the one operator between two expressions on one line."""
    assert left.end_lineno is not None
    assert left.end_col_offset is not None
    if left.end_lineno != right.lineno:
        return
    line = lines[left.end_lineno - 1].encode()
    between = line[left.end_col_offset : right.col_offset].decode()
    operator = between.strip(" ()")
    if operator in swap:
        column = len(line[: left.end_col_offset].decode()) + between.index(operator)
        yield Change(name, left.end_lineno, column, operator, swap[operator], kind)


def _replace_at(name: str, lines: list[str], node: ast.AST, old: str, new: str, kind: str) -> Iterator[Change]:
    assert isinstance(node, ast.expr | ast.stmt)
    line = lines[node.lineno - 1]
    column = len(line.encode()[: node.col_offset].decode())
    if old and old in line and line[column:].startswith(old):
        yield Change(name, node.lineno, column, old, new, kind)


def _text_of(lines: list[str], node: ast.expr | ast.stmt) -> str:
    """Return the source of a node on one line, or nothing if it spans several."""
    if node.lineno != node.end_lineno:
        return ""
    return lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode()


def _has_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def choose_mutants(seed: int, count: int, root: Path = ROOT) -> list[Change]:
    """Choose the mutants of a seed: a package with more code gets more of them."""
    changes = [
        change
        for package in PACKAGES
        for path in sorted((root / "src" / "tidegate" / package).rglob("*.py"))
        for change in sorted(set(find_changes(path, root)))
        if _compiles(change, root)
    ]
    return random.Random(seed).sample(changes, count)


def choose_mutants_at(commit: str, seed: int, count: int) -> list[Change]:
    """Choose the mutants of an earlier commit. One whose line is gone has the line 0."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        return [_find_today(change, Path(folder)) for change in choose_mutants(seed, count, Path(folder))]


def _find_today(change: Change, old_root: Path) -> Change:
    """Return the change where its line is now: in the same file, or in the only file that has such a line."""
    old_lines = (old_root / change.file).read_text("utf-8").splitlines()
    old_line = old_lines[change.line - 1]
    paths = [path for package in PACKAGES for path in sorted((ROOT / "src" / "tidegate" / package).rglob("*.py"))]
    places = [
        (path.relative_to(ROOT).as_posix(), number, line)
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if line.strip() == old_line.strip()
    ]
    nth = sum(line.strip() == old_line.strip() for line in old_lines[: change.line - 1])
    same_file = [place for place in places if place[0] == change.file]
    found = same_file[nth : nth + 1] or (places if len(places) == 1 else [])
    if not found:
        return change._replace(line=0)
    file, number, line = found[0]
    indent = len(line) - len(line.lstrip()) - len(old_line) + len(old_line.lstrip())
    return change._replace(file=file, line=number, column=change.column + indent)


def _compiles(change: Change, root: Path) -> bool:
    try:
        compile(mutate_source((root / change.file).read_text("utf-8"), change), change.file, "exec")
    except SyntaxError:
        return False
    return True


def mutate_source(source: str, change: Change) -> str:
    """Return the source with the change made."""
    lines = source.splitlines(keepends=True)
    line = lines[change.line - 1]
    assert line[change.column :].startswith(change.old), change
    lines[change.line - 1] = line[: change.column] + change.new + line[change.column + len(change.old) :]
    return "".join(lines)


class Coverage:
    """The tests that execute a line, the quickest first."""

    def __init__(self, data: Path, durations: Path) -> None:
        self._data = data
        self._seconds: dict[str, float] = {}
        for case in ElementTree.parse(durations).iter("testcase"):
            path = case.get("classname", "").replace(".", "/") + ".py"
            self._seconds[f"{path}::{case.get('name')}"] = float(case.get("time", "0"))

    def tests_of(self, change: Change) -> list[str]:
        """Return the ids of the tests that execute the changed line."""
        query = (
            "select distinct context.context from arc join file on file.id = arc.file_id"
            " join context on context.id = arc.context_id where file.path like ?"
        )
        here = " and (abs(fromno) = ? or abs(tono) = ?)"
        with contextlib.closing(sqlite3.connect(self._data)) as connection:
            contexts = connection.execute(query + here, ("%/" + change.file, change.line, change.line)).fetchall()
            tests = {_name_test(context) for (context,) in contexts} - {""}
            if not tests:  # a line that runs when the module is imported
                contexts = connection.execute(query, ("%/" + change.file,)).fetchall()
                tests = {_name_test(context) for (context,) in contexts}
        return sorted(tests - {""}, key=lambda test: (self._seconds.get(test, 1.0), test))


def _name_test(context: str) -> str:
    """Return the test of a context: `id|run` in the process of the tests, `id (call)` in a program it started."""
    return context.partition("|")[0].removesuffix(" (call)").removesuffix(" (setup)").removesuffix(" (teardown)")


class Report:
    """What became of each mutant, kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.rows: dict[str, dict[str, object]] = json.loads(path.read_text("utf-8")) if path.exists() else {}

    def add(self, number: int, change: Change, outcome: str, test: str) -> None:
        with self._lock:
            self.rows[str(number)] = {**change._asdict(), "outcome": outcome, "test": test}
            self._path.write_text(json.dumps(self.rows, indent=1), "utf-8")
            print(
                f"{number:3} {outcome:9} {change.file}:{change.line} {change.old!r} -> {change.new!r}  {test}",
                flush=True,
            )


def run_mutants(
    numbers: list[int], changes: list[Change], tests_of: Callable[[Change], list[str]], report: Report, jobs: int
) -> None:
    """Try the mutants, `jobs` at a time, each job in a copy of the repository."""
    waiting = list(reversed(numbers))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:

        def work(job: int) -> None:
            copy = Path(folder) / str(job) / ROOT.name
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".envs", "build", "__pycache__"))
            (copy / ".venv").symlink_to(ROOT / ".venv")
            while waiting:
                number = waiting.pop()
                change = changes[number]
                if not change.line:
                    report.add(number, change, "gone", "")
                    continue
                tests = tests_of(change)
                target = copy / change.file
                source = target.read_text("utf-8")
                target.write_text(mutate_source(source, change), "utf-8")
                outcome, test = _try_tests(copy, tests)
                target.write_text(source, "utf-8")
                report.add(number, change, outcome, test)

        threads = [threading.Thread(target=work, args=(job,)) for job in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _try_tests(copy: Path, tests: list[str]) -> tuple[str, str]:
    """Run the tests in portions until one fails. Say `killed`, `survived` or `untested`."""
    if not tests:
        return "untested", ""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    size = 25
    while tests:
        portion, tests = tests[:size], tests[size:]
        size = TESTS_A_RUN
        names = copy / "tests-to-run.txt"
        names.write_text("\n".join(portion), "utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly"]
        process = subprocess.Popen(
            [*command, "--timeout", "300", f"@{names.name}"],
            cwd=copy,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=SECONDS_A_MUTANT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "killed", "(did not end)"
        if process.returncode == 1 or (process.returncode == 2 and "error" in output.lower()):
            failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return "killed", failed[0].split(" - ")[0] if failed else "(an error at import)"
        if process.returncode != 0:
            return "killed", f"(pytest ended with {process.returncode}: {output.strip().splitlines()[-1][:120]})"
    return "survived", ""


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("do", choices=["list", "run"])
    parser.add_argument("--seed", type=int, default=38)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--coverage", type=Path)
    parser.add_argument("--durations", type=Path)
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "mutants.json")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="numbers of mutants, separated by commas")
    parser.add_argument("--at", metavar="COMMIT", help="the mutants of this commit, where their lines are now")
    parser.add_argument("--tests", help="the tests to run, instead of those that execute the line")
    options = parser.parse_args()
    chosen = (options.seed, options.count)
    changes = choose_mutants_at(options.at, *chosen) if options.at else choose_mutants(*chosen)
    if options.do == "list":
        for number, change in enumerate(changes):
            print(f"{number:3} {change.file}:{change.line} {change.kind}: {change.old!r} -> {change.new!r}")
        return
    if not options.tests and (options.coverage is None or options.durations is None):
        parser.error("run needs --tests, or --coverage and --durations; `make coverage` writes both")
    report = Report(options.report)
    all_numbers = [int(word) for word in options.only.split(",")] if options.only else range(options.count)
    numbers = [number for number in all_numbers if options.only or str(number) not in report.rows]
    chosen_tests = (options.tests or "").split()
    tests_of = (lambda _: chosen_tests) if chosen_tests else Coverage(options.coverage, options.durations).tests_of
    run_mutants(numbers, changes, tests_of, report, options.jobs)
    outcomes = [row["outcome"] for row in report.rows.values()]
    print(", ".join(f"{outcomes.count(name)} {name}" for name in ("killed", "survived", "untested", "gone")))


if __name__ == "__main__":
    main()
