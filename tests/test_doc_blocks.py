"""The code blocks and command lines of the documentation run, or say why they cannot."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.calling import called
from tidegate import DataFolder
from tidegate.cli.parser import make_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"(?:^<!-- ([^\n]+) -->\n)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
RUN, TESTED, SHOWN = "run as a test", "tested by ", "shown: "
WITH_A_MODEL = {"README.md": "tests/test_readme.py", "docs/library.md": "tests/test_library_page.py"}
"""Pages whose blocks need a model: these tests have one, and run every marked block."""

NOT_RUN = {
    ("docs/gateway.md", "pip install 'tidegate[gateway]'"): "needs installed clients; `make test-clients` runs them",
    ("docs/integrations.md", "from langchain.agents import create_agent"): (
        "needs LangChain; examples/integrations/langchain_agent.py runs in `make test-integrations`"
    ),
}
"""Blocks without a mark that cannot run here, by page and first line."""

pytestmark = pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the documentation is not in the distribution")


class Block(NamedTuple):
    page: str
    mark: str
    language: str
    code: str

    @property
    def first_line(self) -> str:
        return self.code.splitlines()[0] if self.code else ""


def read_blocks() -> list[Block]:
    return [
        Block(path.relative_to(ROOT).as_posix(), mark, language, code)
        for path in PAGES
        if path.exists()
        for mark, language, code in FENCE.findall(path.read_text("utf-8"))
    ]


BLOCKS = read_blocks()
PROGRAMS = [block for block in BLOCKS if block.language in ("python", "console", "bash")]
RUNNABLE = [block for block in PROGRAMS if block.mark == RUN and block.page not in WITH_A_MODEL]


def test_every_block_runs_or_says_why_not() -> None:
    """Put a mark above the blocks that this test names."""
    assert PROGRAMS
    assert [f"{block.page}: {block.first_line}" for block in PROGRAMS if not is_marked(block)] == []


def is_marked(block: Block) -> bool:
    """Whether it says how it is tried. A test that is named must name the page."""
    if (block.page, block.first_line) in NOT_RUN:
        return True
    if block.mark.startswith(TESTED):
        test = ROOT / block.mark.removeprefix(TESTED)
        return block.page.split("/")[-1] in test.read_text("utf-8")
    return block.mark == RUN or block.mark.startswith(SHOWN)


def test_the_list_of_blocks_that_do_not_run_is_true() -> None:
    shown = {(block.page, block.first_line) for block in PROGRAMS if not block.mark}
    assert set(NOT_RUN) <= shown


@pytest.fixture
def example_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the session that the pages use as an example."""
    with DataFolder(tmp_path / "data") as data, data.open("build-fix", "gpt-4o", window=16_000) as session:
        session.add({"role": "user", "content": "Why is the build slow? The port is 8443."})
        session.prepare()
        session.add({"role": "assistant", "content": "The cache is off."})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_blocks_to_run() -> None:
    assert {block.language for block in RUNNABLE} == {"python", "console"}


@pytest.mark.parametrize("block", RUNNABLE, ids=lambda block: f"{block.page}: {block.first_line}")
def test_the_block_runs(block: Block, example_folder: Path) -> None:
    """A console block has commands after `$ `; its other lines must be printed."""
    if block.language == "python":
        bare = {"PATH": os.environ.get("PATH", ""), "HOME": str(example_folder), "LANG": "C.UTF-8"}
        command = [sys.executable, "-W", "error", "-c", block.code]
        done = subprocess.run(
            command, env={**bare, "TIDEGATE_DATA": "data"}, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return
    printed = ""
    lines = block.code.splitlines()
    for line in lines:
        if line.startswith("$ "):
            program, *words = shlex.split(line.removeprefix("$ "))
            assert program == "tidegate", "only tidegate can be called without a shell"
            done = called(*words)
            assert done.returncode == 0, done.stdout + done.stderr
            printed += done.stdout
    assert [line for line in lines if not line.startswith("$ ") and line not in printed] == []


def list_command_lines() -> list[tuple[str, str]]:
    """The command lines of all pages. Lines of a synopsis (`[--option]`, `A | B`, a description) are left out."""
    found = []
    for block in BLOCKS:
        if block.language not in ("", "console", "bash"):
            continue
        for line in block.code.splitlines():
            command = re.sub(r"\s+#.*", "", line.removeprefix("$ ")).rstrip()
            if command.startswith("tidegate ") and not re.search(r"\[-|\.\.\.| \| |\S {2,}\S", command):
                found.append((block.page, command))
    return found


def test_every_command_line_is_accepted() -> None:
    """The parser of the command takes it: no unknown command, option or missing argument."""
    parser = make_parser()
    for page, line in list_command_lines():
        words = shlex.split(re.sub(r"[<>]\s*\S+", "", line))[1:]
        try:
            options = parser.parse_args(words)
        except SystemExit:
            pytest.fail(f"{page}: {line}")
        assert callable(options.run_command), (page, line)


def test_every_page_with_command_lines_is_checked() -> None:
    assert {"docs/guide.md", "docs/lab.md", "docs/team.md"} <= {page for page, _ in list_command_lines()}
