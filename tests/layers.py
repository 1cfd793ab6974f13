"""Checkers for the arrows between the rooms and the rules of size and naming: from source to complaints.

They read the source and import nothing of the product: a rule broken in a file that does not even load is still seen.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "src" / "tidegate"

# The one statement of the arrows: a room may import from rooms on earlier lines, never from its own line or below.
# "tidegate" is the public surface, `tidegate/__init__.py`.
LADDER = (
    ("core",),
    ("wire",),
    ("disk",),
    ("plugins",),
    ("store", "models", "memory", "presets"),
    ("session",),
    ("datafolder",),
    ("integrations",),
    ("tidegate",),
    ("agent", "gateway", "lab"),
    ("commands",),
    ("terminal",),
    ("web",),
    ("tui",),
    ("proof",),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LADDER) for room in rooms}
DATA_ROOMS = {"data": ".json"}

# The order inside a room, for its sub-packages and the modules between them: what is named first leads to nothing that
# is named after it, also not through others.
FLOORS = {
    "wire": (
        "limits parsing validation rendering usage streaming splicing dialect openai_chat openai_responses anthropic"
        " gemini registry answers request_check request"
    ).split(),
    "session": "summaries conversation session reports".split(),
    "agent": "tools config hooks runtime".split(),
}

PURE_ROOMS = frozenset({"core", "wire"})
# A list of what is known to be pure, not of what is known to be impure: the second is never complete.
PURE_MODULES = frozenset(
    "__future__ abc array ast base64 binascii bisect collections contextlib copy dataclasses decimal difflib enum "
    "fractions functools graphlib hashlib heapq html inspect itertools json keyword math numbers operator re "
    "statistics string struct textwrap types typing unicodedata zlib msgspec splintr ruamel".split()
)
IMPURE_CALLS = frozenset({"open", "print", "input", "breakpoint", "exec", "eval", "__import__"})

MAX_FILE, MAX_FUNCTION, MAX_DEPTH = 700, 60, 1
# What may be read although its name begins with an underscore: documented names, and the one way Textual has.
OPEN_UNDERSCORES = frozenset({"_replace", "_asdict", "_fields", "_make", "_exit", "_compositor"})
# Private attributes of other libraries, by the module that reads them: they offer no other way.
FOREIGN_PRIVATES = {
    "tidegate.session.conversation": frozenset({"_getframe"}),
    "tidegate.integrations.sdk_clients": frozenset({"_prepare_request", "_client"}),
    "tidegate.store.postgres.connection_pool": frozenset({"_WaitTimeout"}),
    "tidegate.integrations.strands": frozenset({"_session_manager"}),
}
# The module of the notes, and the two that store them: the event itself, and notes of programs.
NOTES = "tidegate.core.notes"
PACKED_NOTES = ("tidegate.core.events", "tidegate.session.history")
PROVIDER_FIELDS = frozenset({"cache_miss_reason", "thinking_dropped"})  # of Anthropic, too
# To parse all tests takes seconds; few of them have such a text.
MAYBE_PRIVATE = re.compile(
    rf"(?<!\bself)(?<!\bcls)(?<!super\(\))\.(?!({'|'.join(OPEN_UNDERSCORES)})\b)_[A-Za-z]|"
    r"^\s*from tidegate\S* import (\([^)]*|[^\n(]*)\b_[A-Za-z]",
    re.MULTILINE,
)
EMPTY_WORDS = frozenset({"manager", "handler", "helper", "helpers", "util", "utils", "base"})


class Source(NamedTuple):
    module: str
    text: str
    is_package: bool = False


class Import(NamedTuple):
    line: int
    target: str
    typing_only: bool


class Class(NamedTuple):
    line: int
    name: str
    bases: tuple[str, ...]


class Function(NamedTuple):
    line: int
    name: str
    lines: int


class Facts(NamedTuple):
    """What the rules ask about a file. The tree of a file takes fifty times as much memory, so it is not kept."""

    imports: tuple[Import, ...]
    bound: dict[str, str]
    """What each imported name stands for, to follow a parent class into the file that holds it."""
    classes: tuple[Class, ...]
    functions: tuple[Function, ...]
    impure: tuple[tuple[int, str], ...]
    """Where it is async or calls something that a pure room must not."""
    public_names: frozenset[str]
    """The names that it defines at its top level, without imports and private names."""


def walk(tree: ast.AST) -> list[ast.AST]:
    """The nodes in the order of `ast.walk`, without names, operators and contexts: no rule asks for them."""
    nodes = [tree]
    for node in nodes:  # it grows
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                nodes += [each for each in value if isinstance(each, ast.AST) and not isinstance(each, _UNASKED)]
            elif isinstance(value, ast.AST) and not isinstance(value, _UNASKED):
                nodes.append(value)
    return nodes


_WITH_FACTS = {ast.If, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Call}
_WITH_FACTS |= {ast.AsyncFor, ast.AsyncWith, ast.Await}
_UNASKED = (ast.Name, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


@lru_cache(maxsize=1)
def nodes_of(text: str) -> list[ast.AST]:
    """The nodes of a file, the module first. All rules ask about one file before the next: a tree takes much memory."""
    return walk(ast.parse(text))


@cache
def facts_of(source: Source) -> Facts:
    """Collect all that the rules ask about a file, except for private names and notes."""
    nodes = nodes_of(source.text)
    tree = nodes[0]
    assert isinstance(tree, ast.Module)
    asked = _WITH_FACTS | {ast.Constant} if source.module == "tidegate" else _WITH_FACTS
    guarded: set[ast.stmt] = set()
    imports: list[Import] = []
    bound: dict[str, str] = {}
    classes: list[Class] = []
    functions: list[Function] = []
    impure: list[tuple[int, str]] = []
    for node in nodes:
        if type(node) not in asked:
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            guarded.update(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append(Function(node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1))
        elif isinstance(node, ast.ClassDef):
            bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
            classes.append(Class(node.lineno, node.name, tuple(map(ast.unparse, bases))))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= bound_names(source, node)
        imports += [Import(line, target, node in guarded) for line, target in targets_of(source, node)]
        impure += impurities_of(node)
    return Facts(
        tuple(imports), bound, tuple(classes), tuple(functions), tuple(impure), frozenset(public_names_of(tree))
    )


def targets_of(source: Source, node: ast.AST) -> Iterator[tuple[int, str]]:
    """What a node imports: in a function, under TYPE_CHECKING or by name; all of them are knowledge."""
    if isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from ((node.lineno, f"{absolute(source, node)}.{alias.name}") for alias in node.names)
    elif isinstance(node, ast.Call):
        yield from ((node.lineno, name) for name in named_by_string(node))
    elif isinstance(node, ast.Constant) and source.module == "tidegate" and is_module_path(node.value):
        yield node.lineno, str(node.value)  # the surface may load its names late, from a table of module paths


def is_module_path(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"tidegate(\.\w+)+", value))


def bound_names(source: Source, node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    if isinstance(node, ast.Import):
        return {alias.asname: alias.name for alias in node.names if alias.asname}
    owner = absolute(source, node)
    return {alias.asname or alias.name: f"{owner}.{alias.name}" for alias in node.names}


def impurities_of(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
        yield node.lineno, "async"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
        yield node.lineno, f"{node.func.id}()"


def public_names_of(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        yield from (name for name in names if not name.startswith("_"))


def room_of(module: str) -> str:
    parts = module.split(".")
    if len(parts) == 1:
        return "tidegate"
    return "cli" if parts[1] == "__main__" else parts[1]


def absolute(source: Source, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = source.module.split(".")
    keep = len(parts) - node.level + (1 if source.is_package else 0)
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def named_by_string(node: ast.Call) -> Iterator[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in {"import_module", "__import__"} and node.args and isinstance(node.args[0], ast.Constant):
        yield str(node.args[0].value)


def imports_of(source: Source) -> tuple[Import, ...]:
    """Every import wherever it stands."""
    return facts_of(source).imports


def arrow_faults(source: Source) -> list[str]:
    room = room_of(source.module)
    if room in DATA_ROOMS:
        return [f"{source.module}:{line}: a room of data imports" for line, _, _ in imports_of(source)]
    if room not in LEVEL:
        return [f"{source.module}: the house has no room called {room}"]
    faults: list[str] = []
    for line, target, _ in imports_of(source):
        if target.split(".")[0] != "tidegate":
            continue
        there = room_of(target)
        if there in DATA_ROOMS:
            bad = room in PURE_ROOMS
        else:
            there = there if there in LEVEL else "tidegate"
            bad = there != room and LEVEL[there] >= LEVEL[room]
        if bad:
            faults.append(f"{source.module}:{line}: {room} must not know {there} ({target})")
    return faults


def purity_faults(source: Source) -> list[str]:
    if room_of(source.module) not in PURE_ROOMS:
        return []
    faults: list[str] = []
    for line, target, _ in imports_of(source):
        top = target.split(".")[0]
        if top != "tidegate" and top not in PURE_MODULES:
            faults.append(f"{source.module}:{line}: {top} is not on the list of pure modules")
    faults += [f"{source.module}:{line}: {what} in a pure room" for line, what in facts_of(source).impure]
    return faults


def validator_faults(source: Source) -> list[str]:
    """A validator must not share code with a renderer or a parser: a mistake made in one could hide in the other."""
    if not re.fullmatch(r"tidegate\.wire\.(validation(\..+)?|\w+\.validate\w*)", source.module):
        return []
    shared = re.compile(r"tidegate\.wire\.(parsing|rendering|registry|dialect|\w+\.(render|parse|dialect))(\..+)?")
    return [
        f"{source.module}:{line}: a validator must not know {target}"
        for line, target, _ in imports_of(source)
        if shared.fullmatch(target)
    ]


def size_faults(source: Source) -> list[str]:
    lines = len(source.text.splitlines())
    faults = [f"{source.module}: {lines} lines, over {MAX_FILE}"] if lines > MAX_FILE else []
    for line, name, length in facts_of(source).functions:
        if length > MAX_FUNCTION:
            faults.append(f"{source.module}:{line}: {name} has {length} lines, over {MAX_FUNCTION}")
    return faults


def is_empty_name(name: str) -> bool:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return bool(words) and not EMPTY_WORDS.isdisjoint({words[0].lower(), words[-1].lower()})


def name_faults(source: Source) -> list[str]:
    names = [(1, source.module.rsplit(".", 1)[-1])]
    names += [(line, name) for line, name, _ in facts_of(source).classes]
    return [f"{source.module}:{line}: {name} does not say what it is" for line, name in names if is_empty_name(name)]


def privacy_faults(source: Source) -> list[str]:
    """Private names of the product, or attributes of another object, that a test reads or sets."""
    if not MAYBE_PRIVATE.search(source.text):
        return []
    faults = []
    for node in nodes_of(source.text):
        if isinstance(node, ast.Attribute):
            names = [] if is_self(node.value) else [node.attr]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidegate"):
            names = [each.name for each in node.names]
        else:
            continue
        private = (name for name in names if name.startswith("_") and not name.endswith("__"))
        faults += [f"{source.module}:{node.lineno} {name}" for name in private if name not in OPEN_UNDERSCORES]
    return faults


def back_door_faults(source: Source) -> list[str]:
    """Private attributes that a module reads or sets of another module's object, and private names that it imports.

    An object is the module's own if the function says so: by an annotation with a class of this module that has the
    attribute, or because it was made from such a class.
    """
    if not MAYBE_PRIVATE.search(source.text):
        return []
    nodes = nodes_of(source.text)
    classes = {node.name: private_names_of(node) for node in nodes if isinstance(node, ast.ClassDef)}
    own: dict[int, bool] = {}
    for function in nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = walk(function)
            private_uses = [
                node
                for node in inner
                if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not is_self(node.value)
            ]
            kinds = object_kinds(inner, set(classes)) if private_uses else {}
            for use in private_uses:
                known = any(use.attr in classes[each] for each in kinds.get(root_name(use.value), ()))
                own[id(use)] = own.get(id(use), False) or (known and is_plain(use.value))
    faults = []
    for node in nodes:
        if isinstance(node, ast.Attribute) and not own.get(id(node)) and not is_self(node.value):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and absolute(source, node).startswith("tidegate"):
            names = [each.name for each in node.names]
        else:
            continue
        allowed = OPEN_UNDERSCORES | FOREIGN_PRIVATES.get(source.module, frozenset())
        private = (name for name in names if name.startswith("_") and not name.endswith("__") and name not in allowed)
        faults += [f"{source.module}:{node.lineno} {name}" for name in private]
    return faults


def note_faults(source: Source) -> list[str]:
    """Topics of notes outside the module that knows them: notes made, told apart or named by a string."""
    if source.module in (NOTES, *PACKED_NOTES) or not maybe_note().search(source.text):
        return []
    faults = []
    for node in nodes_of(source.text):
        found = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("NoteAdded", "HostNote"):
            found = "makes a note without its type"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_note":
            found = "names a topic" if node.args and isinstance(node.args[0], ast.Constant) else ""
        elif isinstance(node, ast.Compare | ast.Subscript | ast.Match):
            parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node_key(node)]
            found = "tells notes apart by their topic" if any(map(is_topic, parts)) else ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in own_topics():
            found = f"names the topic {node.value}"
        faults += [f"{source.module}:{getattr(node, 'lineno', 0)}: {found}"] if found else []
    return faults


def node_key(node: ast.Subscript | ast.Match) -> ast.expr:
    return node.slice if isinstance(node, ast.Subscript) else node.subject


def is_topic(node: ast.expr) -> bool:
    """Whether it is the topic of a stored note; that of a type (`StateNote.topic`) is what it is compared with."""
    if not (isinstance(node, ast.Attribute) and node.attr == "topic"):
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id[:1].isupper())


@cache
def maybe_note() -> re.Pattern[str]:
    """To parse a file takes long; few of them have such a text."""
    return re.compile("|".join(("NoteAdded", "HostNote", "add_note", "topic", *map(re.escape, own_topics()))))


@cache
def own_topics() -> frozenset[str]:
    """The topics that mean nothing else. Others are words, such as `system` or `clear`, or also names elsewhere."""
    text = (PACKAGE / "core" / "notes.py").read_text("utf-8")
    found = re.findall(r'topic: ClassVar\[str\] = "(\w+[_.]\w+)"', text)
    assert len(found) > 10
    return frozenset(found) - PROVIDER_FIELDS


def private_names_of(made: ast.ClassDef) -> set[str]:
    """The private attributes and methods that a class defines."""
    names: set[str] = set()
    for node in walk(made):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            names.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if name.startswith("_")}


def object_kinds(nodes: list[ast.AST], classes: set[str]) -> dict[str, set[str]]:
    """Of which classes the arguments and variables of a function with these nodes are, as far as it says so."""
    kinds: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.arg) and node.annotation is not None:
            kinds[node.arg] = classes.intersection(re.findall(r"\w+", ast.unparse(node.annotation)))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made = re.match(r"(self|copy\(self\))$|(cls|type\(self\)|(\w+))(\.__new__)?\(", ast.unparse(node.value))
            if made and made[3] is None:
                kinds[node.targets[0].id] = classes
            elif made:
                kinds[node.targets[0].id] = classes & {made[3]}
    return kinds


def root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_plain(node: ast.expr) -> bool:
    """Whether it is a variable, or private attributes of one: `node` or `node._before`, but not `self.session`."""
    while isinstance(node, ast.Attribute):
        if not node.attr.startswith("_"):
            return False
        node = node.value
    return isinstance(node, ast.Name) and node.id not in ("self", "cls")


def is_self(node: ast.expr) -> bool:
    is_super = isinstance(node, ast.Call) and ast.unparse(node) == "super()"
    return is_super or (isinstance(node, ast.Name) and node.id in ("self", "cls"))


def depth_faults(sources: list[Source]) -> list[str]:
    """Classes whose parent has a parent of ours. Parents from outside (Struct, Protocol, Exception) count as none."""
    bound = {source.module: facts_of(source).bound for source in sources}
    classes = {
        f"{source.module}.{made.name}": (source.module, made.bases)
        for source in sources
        for made in facts_of(source).classes
    }

    def find(module: str, name: str, child: str, hops: int = 5) -> str | None:
        head, _, rest = name.partition(".")
        full = f"{module}.{name}"
        if full in classes and full != child:
            return full
        full = ".".join(part for part in (bound.get(module, {}).get(head, head), rest) if part)
        if full in classes or not hops:
            return full if full in classes else None
        owner, _, last = full.rpartition(".")  # a package that hands on a name of one of its files
        return find(owner, last, child, hops - 1) if owner in bound else None

    def depth(full: str) -> int:
        module, bases = classes[full]
        parents = [find(module, base, full) for base in bases]
        return max((1 + depth(parent) for parent in parents if parent), default=0)

    return [f"{full}: inherits {depth(full)} deep" for full in classes if depth(full) > MAX_DEPTH]


def cycle_faults(sources: list[Source]) -> list[str]:
    """Files that need each other. Imports inside functions and under TYPE_CHECKING count: they only hide a cycle."""
    modules = {source.module for source in sources}
    needs: dict[str, set[str]] = {module: set() for module in modules}
    for source in sources:
        for _, target, _ in imports_of(source):
            held = next((name for name in (target, target.rpartition(".")[0]) if name in modules), None)
            if held and held != source.module:
                needs[source.module].add(held)
    # What needs nothing, or is needed by nothing, is on no cycle; take such files away until only cycles are left.
    while free := {module for module, others in needs.items() if not others} | needs.keys() - set().union(
        *needs.values()
    ):
        needs = {module: others - free for module, others in needs.items() if module not in free}
    return [f"{module} needs {', '.join(sorted(others))}: a cycle" for module, others in sorted(needs.items())]


def climbing_faults(sources: list[Source]) -> list[str]:
    """Imports inside a room that run back up (`FLOORS`): from what is below to what is above it, directly or not."""
    faults: list[str] = []
    for room, floors in FLOORS.items():
        needs = _needs_inside(room, sources)
        for level, floor in enumerate(floors):
            reached, waiting = {floor}, [floor]
            while waiting:
                new = needs.get(waiting.pop(), set()) - reached
                reached |= new
                waiting += new
            above = [each for each in floors[level + 1 :] if each in reached]
            faults += [f"tidegate.{room}.{floor} leads up to {each}" for each in above]
    return faults


def _needs_inside(room: str, sources: list[Source]) -> dict[str, set[str]]:
    """What each sub-package and module of a room imports of the others."""
    needs: dict[str, set[str]] = {}
    for source in sources:
        path = source.module.split(".")
        if path[1:2] != [room] or len(path) == 2:
            continue
        for _, target, _ in imports_of(source):
            there = target.split(".")
            if there[:2] == path[:2] and there[2:3] != path[2:3]:
                needs.setdefault(path[2], set()).update(there[2:3])
    return needs


SHARED_NAMES = frozenset(
    "CAPABILITIES FAMILY encode_body encode_frames frames_from_body parse_body parse_message render_block render_head"
    " render_leading_messages validate FORMAT read recognizes add_parser run".split()
)
"""Functions and constants of a protocol that each dialect, importer or command implements in its own module."""


def repeated_names(sources: list[Source]) -> dict[str, list[str]]:
    """The public top-level names that more than one module defines, with these modules."""
    defined: dict[str, list[str]] = {}
    for source in sources:
        for name in sorted(facts_of(source).public_names):
            defined.setdefault(name, []).append(source.module)
    return {name: modules for name, modules in defined.items() if len(modules) > 1 and name not in SHARED_NAMES}


def data_faults(room: str, relative: str, text: str) -> list[str]:
    if relative == "__init__.py":
        body = ast.parse(text).body
        docstring_only = all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)
        return [] if docstring_only else [f"{room}/{relative}: code in a room of data"]
    return [] if Path(relative).suffix == DATA_ROOMS[room] else [f"{room}/{relative}: not {DATA_ROOMS[room]}"]


@cache
def package_sources() -> tuple[Source, ...]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ["tidegate", *path.relative_to(PACKAGE).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        found.append(Source(".".join(parts[:-1] if is_package else parts), path.read_text("utf-8"), is_package))
    return tuple(found)


def sources_of_tests() -> Iterator[Source]:
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        yield Source(".".join(("tests", *path.relative_to(folder).with_suffix("").parts)), path.read_text("utf-8"))
