"""The library is light: quick to import, few dependencies."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tidegate import DataFolder

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
LOADED = "import sys; known = set(sys.modules); exec(sys.argv[1]); print(*sorted(set(sys.modules) - known))"


def loaded_modules(statement: str) -> set[str]:
    """The modules that a statement loads in a fresh interpreter."""
    command = [sys.executable, "-I", "-c", LOADED, statement]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_importing_loads_little() -> None:
    """`python bench/import_cost.py` measures the time; here the modules are counted, which no busy machine changes."""
    theirs, package = loaded_modules("import httpx"), loaded_modules("import tidegate")
    session = loaded_modules("from tidegate import Session")
    assert len(package) < len(theirs) / 2
    assert len(session) <= 1.5 * len(theirs)
    slow = {"asyncio", "httpx", "ruamel", "sqlite3", "multiprocessing", "importlib.metadata"}
    assert not {name for name in session if name in slow or name.partition(".")[0] in slow}


def test_the_command_line_loads_what_a_command_needs_when_it_runs() -> None:
    """Until `tidegate chat` can show that it is loading, every import is time in which nothing is on the screen."""
    slow = {"asyncio", "msgspec", "ssl", "logging", "subprocess", "shutil", "tempfile", "textual", "rich", "httpx"}
    assert not slow & loaded_modules("import tidegate.cli.main")


def test_a_command_that_needs_httpx_does_not_load_its_command_line() -> None:
    """It would take a seventh of the time that `tidegate wrap` needs to begin."""
    program = """
import contextlib, io, sys
from tidegate.cli.main import main
sys.argv = ["tidegate", "--version"]
with contextlib.redirect_stdout(io.StringIO()):
    main()
import httpx
"""
    assert not {"click", "pygments", "rich"} & loaded_modules(program)


def test_importing_compiles_little() -> None:
    """Every process that opens a session would otherwise spend a third of its start on patterns."""
    program = """
import gc
from tidegate import DataFolder
from tidegate.core.text.lazy_pattern import LazyPattern
lazy = [each for each in gc.get_objects() if isinstance(each, LazyPattern)]
assert len(lazy) > 300
assert not [each.source for each in lazy if "compiled" in vars(each)]
"""
    loaded_modules(program)


def test_listing_sessions_loads_and_compiles_little(tmp_path: Path) -> None:
    """`tidegate sessions` is typed often, and most of its time was imports and the patterns of secrets."""
    with DataFolder(tmp_path) as folder, folder.open("one", window=32_000) as session:
        session.add({"role": "user", "content": "what does this program do, and where does it begin?"})
    listing = f"""
import contextlib, io
from tidegate.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as shown:
    main(["sessions", "--data", {str(tmp_path)!r}])
assert "where does it begin?" in shown.getvalue()
from tidegate.core.text import joined_text, secret_patterns, secrets, terminal_text
from tidegate.core.text.lazy_pattern import LazyPattern
patterns = [each for module in (joined_text, secret_patterns, secrets, terminal_text) for each in vars(module).values()]
assert sum(isinstance(each, LazyPattern) for each in patterns) > 20
assert not [each.source for each in patterns if isinstance(each, LazyPattern) and "compiled" in vars(each)]
assert not [each.literal for each in secret_patterns.token_shapes() if "pattern" in vars(each)]
"""
    slow = {
        "asyncio",
        "ssl",
        "logging",
        "concurrent.futures",
        "httpx",
        "shutil",
        "tempfile",
        "random",
        "json",
        "difflib",
    }
    ours = {"tidegate.core.text.clip", "tidegate.core.config.values", "isal"}
    assert not (slow | ours) & loaded_modules(listing)


def test_few_dependencies() -> None:
    dependencies = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["dependencies"]
    names = {re.split("[<>=]", each)[0] for each in dependencies}
    assert names == {"httpx", "isal", "msgspec", "ruamel.yaml", "splintr-rs"}
