"""YAML text as a tree of values with their lines. YAML 1.2: `on`, `off` and `yes` are words.

The text is parsed event by event within the limits below, because a few lines with anchors can expand to billions of
values.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from tidegate.core.config.values import (
    Scalar,
    SourcePosition,
    check_scalar,
    match_spelling,
    parse_plain_scalar,
    quote_value,
    suggest_name,
)

MAX_YAML_CHARS, MAX_YAML_LINE_CHARS, MAX_YAML_NODES, MAX_YAML_DEPTH = 1_000_000, 20_000, 20_000, 16


class YamlNode(NamedTuple):
    """A value and its position. `size` is the number of values in it, which an alias counts again; `key` is its key."""

    place: SourcePosition
    value: "Scalar | list[YamlNode] | dict[str, YamlNode]"
    size: int
    key: SourcePosition

    @property
    def entries(self) -> "dict[str, YamlNode]":
        """The values by key; empty if this is not a mapping."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def elements(self) -> "list[YamlNode]":
        """The items; empty if this is not a list."""
        return self.value if isinstance(self.value, list) else []

    def find(self, *keys: str) -> "YamlNode | None":
        """The value at a path of keys, or None."""
        node: YamlNode | None = self
        for key in keys:
            node = node.entries.get(key) if node is not None else None
        return node

    def to_plain(self) -> Any:
        """The value without positions."""
        if isinstance(self.value, dict):
            return {key: each.to_plain() for key, each in self.value.items()}
        return [each.to_plain() for each in self.value] if isinstance(self.value, list) else self.value

    def __str__(self) -> str:
        return "a mapping" if isinstance(self.value, dict) else quote_value(self.value)

    def text(self, what: str) -> str:
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.place.make_error(f"{what} is {self}.", "Give text, in quotes if it looks like something else.")
        return self.value

    def items(self, what: str) -> "list[YamlNode]":
        """The items of a list. A key without a value is an empty list."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self.place.make_error(f"{what} is {self}.", "Give a list: lines that begin with a dash.")
        return self.value

    def mapping(self, what: str) -> "dict[str, YamlNode]":
        if not isinstance(self.value, dict):
            raise self.place.make_error(f"{what} is {self}.", "Give a mapping: lines of `key: value`.")
        return self.value

    def fields(self, what: str, allowed: Collection[str], word: str = "key") -> "dict[str, YamlNode]":
        """A mapping with none but the allowed keys, each as `allowed` spells it."""
        fields: dict[str, YamlNode] = {}
        for key, node in self.mapping(what).items():
            name = match_spelling(key, allowed)
            if name not in allowed:
                raise node.key.make_error(f"unknown {word} {quote_value(key)} in {what}.", suggest_name(key, allowed))
            if name in fields:
                raise node.key.make_error(f"{word} {quote_value(name)} is given twice in {what}.", "Keep one of them.")
            fields[name] = node
        return fields


def read_yaml(text: str, source: str) -> YamlNode:
    """Parse a text. Keys are strings; values have types by the YAML 1.2 core schema."""
    if len(text) > MAX_YAML_CHARS:
        raise SourcePosition(source, 0).make_error(
            f"{len(text):,} characters are too many.", f"Keep it under {MAX_YAML_CHARS:,}."
        )
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_YAML_LINE_CHARS:  # some of the scanner's loops are quadratic in the length of a line
            raise SourcePosition(source, number).make_error(
                "the line is too long.", f"Keep it under {MAX_YAML_LINE_CHARS:,} characters."
            )
    reader = _Reader(_events(text, source), source)
    event = next(reader.events)
    while type(event).__name__ in ("StreamStartEvent", "DocumentStartEvent"):
        event = next(reader.events)
    node = None if type(event).__name__ == "StreamEndEvent" else reader.node(event, 1)
    if node is None or node.value is None:
        raise SourcePosition(source, 0).make_error("the file is empty.", "Begin with a line of `key: value`.")
    for event in reader.events:
        if type(event).__name__ == "DocumentStartEvent":
            place = SourcePosition(source, event.start_mark.line + 1)
            raise place.make_error("a second document begins.", "Keep one document to a file.")
    return node


def _events(text: str, source: str) -> Iterator[Any]:
    """The events of the parser. Every exception becomes BadPolicy: not YAML."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - a program that reads no such file need not load a YAML parser

    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except Exception as bad:
        mark = getattr(bad, "problem_mark", None) or getattr(bad, "context_mark", None)
        line = mark.line + 1 if mark else text.count("\n", 0, getattr(bad, "position", 0)) + 1
        problem = getattr(bad, "problem", None) or getattr(bad, "reason", None) or "it cannot be read"
        raise SourcePosition(source, line).make_error(
            f"not YAML: {problem}.", "Look at the indentation, quotes and colons."
        ) from bad


class _Reader:
    def __init__(self, events: Iterator[Any], source: str) -> None:
        self.events = events
        self.source = source
        self.anchors: dict[str, YamlNode] = {}
        self.nodes = 0

    def node(self, event: Any, depth: int) -> YamlNode:
        place = SourcePosition(self.source, event.start_mark.line + 1)
        kind = type(event).__name__
        if kind == "AliasEvent":
            if event.anchor not in self.anchors:
                raise place.make_error(
                    f"alias {quote_value('*' + event.anchor)} has no anchor.", "Write the value itself."
                )
            self.count(self.anchors[event.anchor].size, place)
            return self.anchors[event.anchor]
        if event.tag is not None:
            raise place.make_error(f"tag {quote_value(event.tag)} has no meaning here.", "Leave it out.")
        if depth > MAX_YAML_DEPTH:
            raise place.make_error("nested too deep.", f"Keep to {MAX_YAML_DEPTH} levels.")
        before = self.nodes
        self.count(1, place)
        value: Scalar | list[YamlNode] | dict[str, YamlNode]
        if kind == "ScalarEvent":
            value = parse_plain_scalar(event.value, place) if event.style is None else check_scalar(event.value, place)
        elif kind == "SequenceStartEvent":
            value = [self.node(item, depth + 1) for item in iter(self.within, None)]
        else:
            value = self.mapping(depth)
        node = YamlNode(place, value, self.nodes - before, place)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def mapping(self, depth: int) -> dict[str, YamlNode]:
        nodes: dict[str, YamlNode] = {}
        for event in iter(self.within, None):
            place = SourcePosition(self.source, event.start_mark.line + 1)
            if type(event).__name__ != "ScalarEvent" or event.tag is not None:
                raise place.make_error("a key is not a word.", "Write a name before the colon.")
            check_scalar(event.value, place)
            if event.value in nodes:
                raise place.make_error(f"key {quote_value(event.value)} is here twice.", "Keep one of them.")
            nodes[event.value] = self.node(next(self.events), depth + 1)._replace(key=place)
        return nodes

    def within(self) -> Any:
        """The next event of the list or mapping being read; None where it ends."""
        event = next(self.events)
        return None if type(event).__name__ in ("SequenceEndEvent", "MappingEndEvent") else event

    def count(self, nodes: int, place: SourcePosition) -> None:
        self.nodes += nodes
        if self.nodes > MAX_YAML_NODES:
            raise place.make_error(f"more than {MAX_YAML_NODES:,} values, aliases counted.", "Make the file smaller.")
