"""How a project's `tidegate.yaml` is combined with the user's own: the project's value wins, except for limits.

Spending, approvals, commands, tools, network and paths are limits: wherever the user's own file says something about
one of them, the stricter of the two values wins. Where it says nothing, the project's file may set it. So a project's
file can only tighten what the user's own file says. Every value of the project's file that was ignored is recorded.

The two files are combined as nodes, so that every value still knows its file and line.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tidegate.agent.chosen import Bounds, Ignored, rules_of, tool_named
from tidegate.agent.config import PRICES, Settings
from tidegate.agent.config_reading import Reader, id_of
from tidegate.agent.tools.approval import STRICTNESS, Approval, Verdict, decide
from tidegate.agent.tools.command_rules import intersect_rules
from tidegate.core.expression import quoted
from tidegate.core.yaml_nodes import Node

WHOLE: Final = frozenset({"brain", "summary_brain", "policy"})
"""Not merged key by key: a model of one file with the provider of another would be nobody's wish."""
POLICIES: Final = ("allow", "auto", "ask", "deny")
"""The values of `default_policy`, the loosest first."""
LOOSER: Final = "is ignored: your own file is stricter"

Path = tuple[str, ...]


class Source(NamedTuple):
    """A file: its nodes, and the settings that were read from them alone."""

    top: Node
    settings: Settings


class Combined(NamedTuple):
    top: Node
    bounds: Bounds


def combine_files(project: Source, own: Source, environment: Mapping[str, str]) -> Combined:
    """Combine a project's file with the user's own."""
    approval = rules_of(own.settings.capabilities, _given(own.top))
    combining = _Combining(project.settings, own.settings, approval)
    addressed = combining.drop_addresses((), project.top, Reader(environment, lenient=True))
    top = combining.combine((), addressed, own.top)
    tools = Approval(rules_of(project.settings.capabilities, ()).tools, default=None)
    return Combined(
        top, Bounds(own.settings, (approval, tools), tuple(combining.ignored), project=project.top.place.source)
    )


def merge_nodes(over: Node, under: Node) -> Node:
    """Two nodes as one: mappings key by key, lists of things with an id by their ids, `over` first; else `over`."""
    if isinstance(over.value, dict) and isinstance(under.value, dict):
        both = dict(over.value)
        for key, node in under.value.items():
            both[key] = node if key not in both else both[key] if key in WHOLE else merge_nodes(both[key], node)
        return over._replace(value=both)
    if isinstance(over.value, list) and isinstance(under.value, list):
        ids = {id_of(each) for each in over.value}
        if "" not in ids and all(map(id_of, under.value)):
            return over._replace(value=[*over.value, *(each for each in under.value if id_of(each) not in ids)])
    return under if over.value is None else over


class _Combining:
    """Each method for a kind of limit takes its path, the project's node and the user's own, neither of them null."""

    def __init__(self, project: Settings, own: Settings, approval: Approval) -> None:
        self._project = project
        self._own = own
        self._approval = approval
        self.ignored: list[Ignored] = []

    def combine(self, path: Path, project: Node, own: Node) -> Node:
        if project.value is None or own.value is None:
            return own if project.value is None else project
        for pattern, rule in _RULES.items():
            if len(pattern) == len(path) and all(word in ("*", key) for word, key in zip(pattern, path, strict=True)):
                return rule(self, path, project, own)
        if isinstance(project.value, dict) and isinstance(own.value, dict):
            both = dict(project.value)
            for key, node in own.value.items():
                if key not in both:
                    both[key] = node
                elif key not in WHOLE:
                    both[key] = self.combine((*path, key), both[key], node)
            return project._replace(value=both)
        return merge_nodes(project, own)

    def take_smaller(self, path: Path, project: Node, own: Node) -> Node:
        """Of two numbers; null is no bound, and except for spending 0 is none either."""
        theirs, ours = self._values(path)
        if isinstance(theirs, str) or isinstance(ours, str):  # a variable of a context that is not set
            return project if isinstance(theirs, str) else own
        bounds = [each for each in (theirs, ours) if each is not None and (each or path[0] == "spend")]
        if not bounds or theirs == min(bounds):
            return project
        self._ignore(path, project)
        return own

    def take_larger(self, path: Path, project: Node, own: Node) -> Node:
        theirs, ours = self._values(path)
        if theirs >= ours:
            return project
        self._ignore(path, project)
        return own

    def take_own(self, path: Path, project: Node, own: Node) -> Node:
        theirs, ours = self._values(path)
        if theirs != ours:
            self._ignore(path, project, "is ignored: your own file decides this")
        return own

    def add_entries(self, path: Path, project: Node, own: Node) -> Node:
        """Entries by name: the project's file may add some, and changes none of the user's own."""
        entries = dict(_mapping(own))
        for name, node in _mapping(project).items():
            if name in entries:
                self.take_own((*path, name), node, entries[name])
        return own._replace(value={**entries, **{n: e for n, e in _mapping(project).items() if n not in entries}})

    def add_hooks(self, path: Path, project: Node, own: Node) -> Node:
        ids = {id_of(each) for each in _items(own)}
        for each in _items(project):
            if id_of(each) in ids:
                self._ignore((*path, id_of(each)), each, "is ignored: your own file has a hook with this id")
        return own._replace(value=[*_items(own), *(each for each in _items(project) if id_of(each) not in ids)])

    def unite(self, path: Path, project: Node, own: Node) -> Node:
        theirs, ours = self._values(path)
        new = [node for node, value in zip(_items(project), theirs, strict=True) if value not in ours]
        return own._replace(value=[*_items(own), *new])

    def intersect(self, path: Path, project: Node, own: Node) -> Node:
        theirs, ours = self._values(path)
        for node, value in zip(_items(project), theirs, strict=True):
            if value not in ours:
                self._ignore(path, node)
        return own._replace(
            value=[node for node, value in zip(_items(own), ours, strict=True) if value in theirs],
        )

    def intersect_modules(self, path: Path, project: Node, own: Node) -> Node:
        theirs, ours = _mapping(project), _mapping(own)
        for name in theirs:
            if name not in ours:
                self._ignore((*path, name), theirs[name], "is ignored: your own file does not name this module")
        both = {name: self.combine((*path, name), theirs[name], ours[name]) for name in ours if name in theirs}
        return own._replace(value=both)

    def combine_capabilities(self, path: Path, project: Node, own: Node) -> Node:
        """Verdicts of different patterns are not compared here: for these there are the bounds of `Approval`."""
        theirs, ours = dict(_mapping(project)), dict(_mapping(own))
        tools = theirs.pop("tools", None)
        if tools is not None and isinstance(tools.value, dict):
            kept = {name: node for name, node in tools.value.items() if self._strict_enough(name, node)}
            given = _mapping(ours["tools"]) if "tools" in ours else {}
            theirs["tools"] = tools._replace(value={**given, **kept})
            ours.pop("tools", None)
        commands = theirs.get("allow_commands")
        if commands is not None and "allow_commands" not in ours and self._own_verdict("shell") != "allow":
            for node in _items(theirs.pop("allow_commands")):
                self._ignore((*path, "allow_commands"), node)
        for key, node in ours.items():
            theirs[key] = self.combine((*path, key), theirs[key], node) if key in theirs else node
        return project._replace(value=theirs)

    def intersect_commands(self, path: Path, project: Node, own: Node) -> Node:
        theirs, ours = self._values(path)
        both = intersect_rules(ours, theirs)
        for node, value in zip(_items(project), theirs, strict=True):
            if value not in both:
                self._ignore(path, node, "is ignored: no rule of your own file allows it")
        kept = [node for node, value in zip(_items(own), ours, strict=True) if value in both]
        new = [node for node, value in zip(_items(project), theirs, strict=True) if value in both - set(ours)]
        return own._replace(value=[*kept, *new])

    def take_stricter_default(self, path: Path, project: Node, own: Node) -> Node:
        theirs, ours = self._values(path)
        if POLICIES.index(theirs) >= POLICIES.index(ours):
            return project
        self._ignore(path, project)
        return own

    def drop_addresses(self, path: Path, node: Node, reader: Reader) -> Node:
        """A project's nodes without the address and headers of a brain whose provider the user's own file describes."""
        if isinstance(node.value, list):
            items = [self.drop_addresses((*path, id_of(each)), each, reader) for each in node.value]
            return node._replace(value=items)
        if not isinstance(node.value, dict):
            return node
        found = {key: self.drop_addresses((*path, key), each, reader) for key, each in node.value.items()}
        if path and path[-1] in ("brain", "summary_brain") and "provider" in found and "config" in found:
            provider = reader.read(found["provider"], str, "provider")
            if provider in self._own.providers:
                found["config"] = self._without_address((*path, "config"), found["config"], provider)
        return node._replace(value=found)

    def _without_address(self, path: Path, config: Node, provider: str) -> Node:
        given = dict(_mapping(config))
        for key in ("base_url", "headers"):
            if key in given:
                self._ignore((*path, key), given.pop(key), f"is ignored: your own file sets providers.{provider}")
        return config._replace(value=given)

    def _strict_enough(self, name: str, node: Node) -> bool:
        verdict = self._project.capabilities.tools[name]
        own = self._own_verdict(tool_named(name))
        if STRICTNESS.index(verdict) >= STRICTNESS.index(own):
            return True
        self._ignore(("capabilities", "tools", name), node)
        return False

    def _own_verdict(self, tool: str) -> Verdict:
        """What the user's own file says of a tool; `allow`, which bounds nothing, if it says nothing."""
        return decide(Approval(default="allow", bounds=(self._approval,)), tool, {}).verdict

    def _values(self, path: Path) -> tuple[Any, Any]:
        return _value(self._project, path), _value(self._own, path)

    def _ignore(self, path: Path, node: Node, why: str = LOOSER) -> None:
        value = f"{quoted(node.value)} " if not isinstance(node.value, list | dict) else ""
        self.ignored.append(Ignored(".".join(path), f"{node.key.source}:{node.key.line}", f"{value}{why}"))


_C = _Combining
_RULES: Final[Mapping[Path, Callable[[_Combining, Path, Node, Node], Node]]] = {
    ("spend", "*", "*"): _C.take_smaller,
    ("execution", "max_turns"): _C.take_smaller,
    ("execution", "max_steps"): _C.take_smaller,
    ("execution", "timeout"): _C.take_smaller,
    ("execution", "hooks"): _C.add_hooks,
    ("execution", "context", "max_tokens"): _C.take_smaller,
    ("window",): _C.take_smaller,
    ("models", "*", "window"): _C.take_smaller,
    ("models", "*", "max_output"): _C.take_smaller,
    ("models", "*", "images"): _C.take_own,
    **{("models", "*", name): _C.take_larger for name in PRICES},
    ("capabilities",): _C.combine_capabilities,
    ("capabilities", "default_policy"): _C.take_stricter_default,
    ("capabilities", "allow_commands"): _C.intersect_commands,
    ("capabilities", "deny_commands"): _C.unite,
    ("modules",): _C.intersect_modules,
    ("modules", "*", "constraints", "allowed_actions"): _C.intersect,
    ("modules", "*", "constraints", "denied_actions"): _C.unite,
    ("providers",): _C.add_entries,
    ("mcp",): _C.add_entries,
    ("skills",): _C.take_own,
    ("rules",): _C.unite,
}
"""Every limit by its path, `*` being any key. What is not here is no limit: the project's value wins."""


def _given(top: Node) -> frozenset[str]:
    """The keys of `capabilities` that a file gives a value."""
    capabilities = _mapping(top).get("capabilities")
    found = _mapping(capabilities) if capabilities is not None else {}
    return frozenset(key for key, node in found.items() if node.value is not None)


def _value(settings: Settings, path: Path) -> Any:
    found: Any = settings
    for key in path:
        found = found.get(key) if isinstance(found, dict) else getattr(found, key, None)
    return found


def _mapping(node: Node) -> dict[str, Node]:
    return node.value if isinstance(node.value, dict) else {}


def _items(node: Node) -> list[Node]:
    return node.value if isinstance(node.value, list) else []
