"""The arrows between the rooms and the rules of size and naming hold, and the checkers see what they are for."""

import pytest

from tests.layers import (
    DATA_ROOMS,
    PACKAGE,
    Source,
    arrow_faults,
    back_door_faults,
    climbing_faults,
    cycle_faults,
    data_faults,
    depth_faults,
    facts_of,
    name_faults,
    note_faults,
    package_sources,
    privacy_faults,
    purity_faults,
    repeated_names,
    room_of,
    size_faults,
    sources_of_tests,
    validator_faults,
)

# The house as it stands.


CHECKS = [arrow_faults, purity_faults, validator_faults, size_faults, name_faults, back_door_faults, note_faults]


def test_the_package() -> None:
    """One test for all rules: to read the package takes longer than to judge it."""
    sources = list(package_sources())
    assert {room_of(source.module) for source in sources} >= {"tidegate", "core"}
    faults = [fault for source in sources for check in CHECKS for fault in check(source)]
    assert faults + depth_faults(sources) + cycle_faults(sources) + climbing_faults(sources) == []
    names = {name for source in sources for name in facts_of(source).public_names}
    repeated = repeated_names(sources)
    assert len(repeated) < 0.05 * len(names), repeated


VENDOR_FILES = {
    "tidegate.wire.registry",
    "tidegate.models.catalog",  # the names of models, whoever serves them
    "tidegate.models.token_counters",
}


@pytest.mark.parametrize("vendor", ["deepseek", "mistral"])
def test_a_dialect_of_a_known_family_is_one_file(vendor: str) -> None:
    own = f"tidegate.wire.openai_chat.{vendor}"
    naming = {source.module for source in package_sources() if f'"{vendor}' in source.text}
    assert own in naming
    assert naming <= {own} | VENDOR_FILES


def test_tests_use_the_public_path() -> None:
    assert [fault for source in sources_of_tests() for fault in privacy_faults(source)] == []


@pytest.mark.parametrize("room", sorted(DATA_ROOMS))
def test_rooms_of_data_hold_data(room: str) -> None:
    files = [path for path in (PACKAGE / room).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    faults = [data_faults(room, str(path.relative_to(PACKAGE / room)), path.read_text("utf-8")) for path in files]
    assert [fault for some in faults for fault in some] == []


# The checkers themselves: each must see what it is for.


FORBIDDEN = """
core wire, core store, core session, core cli, core presets, core tidegate, wire models, wire session, wire data,
store models, store memory, models store, models memory, memory store, memory models, store session, models agent,
session agent, session gateway, session lab, session tidegate, session cli, gateway agent, lab agent,
integrations agent, agent gateway, gateway lab, agent cli, gateway cli, lab cli, integrations cli
"""
ALLOWED = """
wire core, store core, store wire, models wire, memory core, session store, session models, session memory,
session presets, agent session, gateway session, lab session, integrations session, lab wire, agent core,
cli agent, cli gateway, cli lab, cli core, cli tidegate, agent tidegate
"""


def pairs(table: str) -> list[list[str]]:
    return [pair.split() for pair in table.replace("\n", " ").split(",")]


def importing(there: str) -> str:
    return "import tidegate" if there == "tidegate" else f"from tidegate.{there}.thing import name"


def test_forbidden_arrows_are_seen_and_allowed_ones_are_left_alone() -> None:
    for faults, table in ((1, FORBIDDEN), (0, ALLOWED)):
        for room, there in pairs(table):
            found = arrow_faults(Source(f"tidegate.{room}.file", importing(there)))
            assert len(found) == faults, (room, there)


@pytest.mark.parametrize(
    "text",
    [
        "import tidegate.agent.loop as loop",
        "from tidegate import agent",
        "from ..agent import loop",
        "from .. import agent",
        "def late():\n    from tidegate.agent.loop import run",
        "class Late:\n    def go(self):\n        import tidegate.agent",
        "if TYPE_CHECKING:\n    from tidegate.agent.loop import run",
        "try:\n    import tidegate.agent\nexcept ImportError:\n    pass",
        "importlib.import_module('tidegate.agent.loop')",
    ],
)
def test_no_way_of_importing_escapes(text: str) -> None:
    assert len(arrow_faults(Source("tidegate.gateway.server", text))) == 1


def test_relative_import_from_a_package_counts_from_the_package() -> None:
    assert arrow_faults(Source("tidegate.session", "from . import live", is_package=True)) == []
    assert len(arrow_faults(Source("tidegate.session", "from ..agent import loop", is_package=True))) == 1


def test_the_surface_is_held_when_it_loads_late() -> None:
    assert len(arrow_faults(Source("tidegate", "HOMES = {'run': 'tidegate.agent.loop'}", is_package=True))) == 1
    assert arrow_faults(Source("tidegate", "HOMES = {'Session': 'tidegate.session.session'}", is_package=True)) == []


def test_a_name_of_the_surface_is_the_surface() -> None:
    assert len(arrow_faults(Source("tidegate.session.file", "from tidegate import Session"))) == 1
    assert arrow_faults(Source("tidegate.lab.file", "from tidegate import Session")) == []


def test_running_the_package_is_an_app() -> None:
    assert arrow_faults(Source("tidegate.__main__", "from tidegate.cli.main import main")) == []


def test_unknown_room_is_seen() -> None:
    assert len(arrow_faults(Source("tidegate.common.things", ""))) == 1


IMPURE = (
    "asyncio socket time datetime random os pathlib logging subprocess threading uuid secrets io sys shutil tempfile "
    "urllib http sqlite3 multiprocessing selectors signal locale zoneinfo httpx rich"
).split()


@pytest.mark.parametrize("room", ["core", "core.stages", "wire"])
def test_impure_import_is_seen(room: str) -> None:
    for module in IMPURE:
        for text in (f"def f():\n    import {module}", f"from {module} import name"):
            assert len(purity_faults(Source(f"tidegate.{room}.file", text))) == 1, text


@pytest.mark.parametrize("text", ["async def f(): ...", "open('x')", "print(1)", "__import__('os').getcwd()"])
def test_impure_code_is_seen(text: str) -> None:
    assert purity_faults(Source("tidegate.core.file", text)) != []


def test_pure_code_and_outer_rooms_are_left_alone() -> None:
    assert purity_faults(Source("tidegate.core.file", "import re, msgspec\nfrom collections.abc import Iterable")) == []
    assert purity_faults(Source("tidegate.store.file", "import os\nasync def f(): open('x')")) == []


@pytest.mark.parametrize("module", ["validation.faults", "gemini.validate", "anthropic.validate_media"])
@pytest.mark.parametrize(
    "text",
    [
        "from tidegate.wire.parsing import require_object",
        "from tidegate.wire.rendering.blocks import JsonObject",
        "from tidegate.wire.gemini import render",
        "def f():\n    from tidegate.wire.openai_chat.parse import FAMILY",
    ],
)
def test_a_validator_that_knows_a_renderer_or_parser_is_seen(module: str, text: str) -> None:
    assert len(validator_faults(Source(f"tidegate.wire.{module}", text))) == 1
    assert validator_faults(Source("tidegate.wire.gemini.dialect", text)) == []


def test_sizes_are_seen_at_the_limit() -> None:
    assert size_faults(Source("tidegate.core.file", "x = 1\n" * 700)) == []
    assert len(size_faults(Source("tidegate.core.file", "x = 1\n" * 701))) == 1
    assert size_faults(Source("tidegate.core.file", "def f():\n" + "    x = 1\n" * 59)) == []
    assert len(size_faults(Source("tidegate.core.file", "class A:\n  async def f(self):\n" + "    x = 1\n" * 60))) == 1


@pytest.mark.parametrize(
    "name", ["StoreManager", "Handler", "HTTPHandler", "EditHelper", "TextUtil", "StoreBase", "BaseStore"]
)
def test_empty_class_name_is_seen(name: str) -> None:
    assert len(name_faults(Source("tidegate.core.file", f"def f():\n    class {name}: ..."))) == 1


def test_names_that_say_something_are_left_alone() -> None:
    assert (
        name_faults(Source("tidegate.core.file", "class Database: ...\nclass Utility: ...\nclass Baseline: ...")) == []
    )
    assert len(name_faults(Source("tidegate.core.utils", ""))) == 1


def test_deep_inheritance_is_seen_across_files() -> None:
    first = Source("tidegate.core.a", "class A(Struct): ...\nclass B(A): ...")
    handed_on = Source("tidegate.core", "from tidegate.core.a import B", is_package=True)
    for text in (
        "from tidegate.core.a import B\nclass C(B[int]): ...",
        "from tidegate.core import a as x\nclass C(x.B): ...",
        "from tidegate.core import B as Other\nclass C(Other): ...",
        "import tidegate.core.a as x\nclass C(x.B): ...",
        "import tidegate.core.a\nclass C(tidegate.core.a.B): ...",
        "from tidegate.core.a import B as C\nclass C(C): ...",
    ):
        assert depth_faults([first, handed_on, Source("tidegate.wire.c", text)]) == [
            "tidegate.wire.c.C: inherits 2 deep"
        ]
    assert depth_faults([first, handed_on]) == []


def test_cycle_is_seen_even_when_it_is_late() -> None:
    first = Source("tidegate.core.a", "from tidegate.core.b import g")
    late = Source("tidegate.core.b", "def g():\n    from tidegate.core.a import f")
    beside = [Source("tidegate.core.c", "import tidegate.core.a"), Source("tidegate.core", "", is_package=True)]
    assert len(cycle_faults([first, late, *beside])) == 2
    assert len(cycle_faults([first, Source("tidegate.core.b", "if TYPE_CHECKING:\n    import tidegate.core.a")])) == 2
    assert cycle_faults([first, Source("tidegate.core.b", "import re")]) == []


def test_an_import_that_runs_back_up_inside_a_room_is_seen() -> None:
    form = Source("tidegate.wire.splicing.form", "from tidegate.wire.parsing import read")
    assert climbing_faults([form, Source("tidegate.wire.parsing", "import re")]) == []
    up = Source("tidegate.wire.parsing", "def read():\n    from tidegate.wire.splicing.form import Form")
    assert climbing_faults([up]) == ["tidegate.wire.parsing leads up to splicing"]
    between = Source("tidegate.wire.marks", "from tidegate.wire.registry import DIALECTS")
    through = Source("tidegate.wire.splicing.form", "from tidegate.wire.marks import keep")
    assert climbing_faults([through, between]) == ["tidegate.wire.splicing leads up to registry"]


def test_code_among_data_is_seen() -> None:
    assert data_faults("data", "__init__.py", '"""Policies as data."""') == []
    assert data_faults("data", "seeds.json", "a: 1") == []
    assert len(data_faults("data", "__init__.py", "import re")) == 1
    assert len(data_faults("data", "load.py", "x = 1")) == 1


def test_a_name_in_two_modules_is_seen() -> None:
    one = Source("tidegate.core.one", "def find(): ...\nLIMIT = 3\n_HIDDEN = 1\nfrom x import shared\n")
    two = Source("tidegate.wire.two", "class find: ...\nLIMIT: int = 4\n_HIDDEN = 2\nfrom x import shared\n")
    assert repeated_names([one, two]) == {"LIMIT": [one.module, two.module], "find": [one.module, two.module]}
    assert repeated_names([one]) == {}


@pytest.mark.parametrize(
    "text",
    [
        "session._view",
        "session.view._items.append(1)",
        "made()._state = 2",
        "from tidegate.core.view import _fold",
        "import tidegate\ntidegate.core._hidden",
    ],
)
def test_a_private_name_in_a_test_is_seen(text: str) -> None:
    assert privacy_faults(Source("tests.some", text)) != []


def test_what_a_test_owns_or_may_read_is_left_alone() -> None:
    text = "class Some:\n    def act(self) -> None:\n        self._own = row._replace(a=1)\n        os._exit(0)\n"
    assert privacy_faults(Source("tests.some", text + "from tidegate import __version__\nwhole.__dict__\n")) == []


OTHER = (
    "class Runner:\n    def __init__(self, session: Session) -> None:\n        self.session, self._view = session, 1\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "def read(session: Session) -> int:\n    return session._view",
        OTHER + "    def read(self) -> int:\n        return self.session._view",
        OTHER + "    def read(self) -> int:\n        session = self.session\n        return session._view",
        OTHER + "    def read(self, runner: Runner) -> int:\n        return runner.session._view",
        "from tidegate.core.view import _fold",
        "made()._state = 2",
    ],
)
def test_a_back_door_into_another_object_is_seen(text: str) -> None:
    assert len(back_door_faults(Source("tidegate.session.some", text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def act(self) -> None: ...",
        "def add(self, other: 'Runner') -> int:\n        return other._view",
        "def copy(self) -> 'Runner':\n        other = copy(self)\n        other._view = 2\n        return other",
        "def walk(self) -> int:\n        node = self\n        return node._view._view",
        "def act(self) -> None:\n        row = self._view._replace(a=1)\n        super()._view()",
    ],
)
def test_private_attributes_of_its_own_class_are_left_alone(text: str) -> None:
    assert back_door_faults(Source("tidegate.session.some", f"{OTHER}    {text}")) == []


@pytest.mark.parametrize(
    "text",
    [
        'log.append(NoteAdded("clear"))',
        'session.history.add_note("focus", "the parser")',
        'is_undo = noted.topic == "undo"',
        "is_listed = noted.topic in LISTED",
        "text = TEXTS[event.payload.topic]",
        'match noted.topic:\n    case "undo":\n        pass',
        'kind = "hidden_calls"',
    ],
)
def test_a_note_without_its_type_is_seen(text: str) -> None:
    assert len(note_faults(Source("tidegate.session.some", text))) == 1
    assert note_faults(Source("tidegate.core.notes", text)) == []


def test_types_of_notes_and_topics_that_are_passed_on_are_left_alone() -> None:
    text = "entry = Entry(noted.topic)\nis_note = entry.action == StateNote.topic\nhistory.add_note(topic, text)\n"
    assert note_faults(Source("tidegate.session.some", text + "history.append_note(ViewCleared())")) == []
