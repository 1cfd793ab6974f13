"""Reads the nodes of a YAML file into typed values, and records the position of each.

The types define the format: the fields of a struct are its keys, a field without a default is required, and a union of
tagged structs is selected by `type`. `{{env.NAME}}` in a text is replaced from the environment. Error messages never
contain values from the environment or values marked as secret.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from tidegate.core.config.values import (
    SourcePosition,
    convert_value,
    describe_type,
    parse_plain_scalar,
    quote_value,
    suggest_name,
)
from tidegate.core.config.yaml_tree import YamlNode
from tidegate.core.errors import BadPolicy

_ENV_PLACEHOLDER = re.compile(r"\{\{\s*env\s*\.([^{}]*)\}\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_ITEMS = 200
_SHOWN_KEYS = frozenset("base_url model provider".split())
"""Keys whose values may be shown although they come from the environment; any other may be a secret."""


class SecretString(str):
    """Text whose `repr` is masked, so that no dump of a struct prints it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'[masked]'" if self else "''"


class SettingsReader:
    """`sources` has the position of every path that was read, `hidden_paths` the paths that must not be shown.

    With `lenient`, a variable that is not set stays as it is written, for parts of a file that are not used.
    """

    def __init__(self, environment: Mapping[str, str], *, lenient: bool = False) -> None:
        self._environment = environment
        self._lenient = lenient
        self.sources: dict[str, str] = {}
        self.hidden_paths: set[str] = set()

    def read(self, node: YamlNode, hint: Any, path: str) -> Any:
        if get_origin(hint) in (Union, UnionType):
            return self._read_union(node, hint, path)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self._read_struct(node, hint, path)
        if get_origin(hint) is tuple:
            return self._read_list(node, get_args(hint)[0], path)
        if get_origin(hint) is dict:
            inner = get_args(hint)[1]
            if node.value is None:
                return {}
            found = self._require_mapping(node, path)
            self._record_source(node, path)
            return {key: self.read(each, inner, f"{path}.{key}") for key, each in found.items()}
        if hint is Any:
            return self._read_any(node, path)
        return self._read_leaf(node, hint, path)

    def _read_union(self, node: YamlNode, hint: Any, path: str) -> Any:
        choices = get_args(hint)
        if NoneType in choices and node.value is None:
            self._record_source(node, path)
            return None
        rest = [choice for choice in choices if choice is not NoneType]
        tagged = {
            str(tag): choice for choice in rest if (tag := _struct_tag(choice)) is not None
        }  # a file cannot name the others
        if not tagged:
            return self.read(node, rest[0], path) if len(rest) == 1 else self._read_leaf(node, hint, path)
        found = self._require_mapping(node, path)
        if "type" not in found:
            raise node.place.make_error(f'{_quote_path(path)} has no "type".', suggest_name("", tagged))
        word = found["type"].text(f"type in {_quote_path(path)}")
        if word not in tagged:
            raise found["type"].place.make_error(
                f"unknown type {quote_value(word)} in {_quote_path(path)}.", suggest_name(word, tagged)
            )
        self._record_source(found["type"], f"{path}.type")
        return self._read_struct(node, tagged[word], path)

    def _read_struct(self, node: YamlNode, kind: type[msgspec.Struct], path: str) -> Any:
        """Read a struct. An empty key is a struct with all its defaults."""
        given = {} if node.value is None else self._require_mapping(node, path)
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        allowed = [*fields, "type"] if _struct_tag(kind) is not None else [*fields]
        for key, each in given.items():
            if key not in allowed:
                where = f" in {_quote_path(path)}" if path else ""
                raise each.key.make_error(f"unknown key {quote_value(key)}{where}.", suggest_name(key, allowed))
        self._record_source(node, path)
        values: dict[str, Any] = {}
        for name, field in fields.items():
            if name in given:
                values[name] = self.read(given[name], field.type, f"{path}.{name}" if path else name)
            elif field.required:
                raise node.place.make_error(f'{_quote_path(path)} has no "{name}".', f"Add the key {name}.")
        return kind(**values)

    def _read_list(self, node: YamlNode, hint: Any, path: str) -> tuple[Any, ...]:
        """Read a list. Items with an id are named by it; ids must be unique."""
        if node.value is None:
            return ()
        if not isinstance(node.value, list):
            raise node.place.make_error(
                f"{_quote_path(path)} is {_describe_node(node)}.", "Give a list: lines that begin with a dash."
            )
        if len(node.value) > _MAX_ITEMS:
            raise node.place.make_error(f"{_quote_path(path)} has {len(node.value)} items.", f"Keep to {_MAX_ITEMS}.")
        self._record_source(node, path)
        seen: dict[str, int] = {}
        items: list[Any] = []
        for number, each in enumerate(node.value, 1):
            name = node_id(each)
            if name and name in seen:
                raise each.place.make_error(
                    f"id {quote_value(name)} in {_quote_path(path)} is taken by line {seen[name]}.", "Rename."
                )
            seen[name] = each.place.line
            items.append(self.read(each, hint, f"{path}.{name or number}"))
        return tuple(items)

    def _require_mapping(self, node: YamlNode, path: str) -> dict[str, YamlNode]:
        if not isinstance(node.value, dict):  # it may be a secret in the wrong place: do not quote it
            what = _quote_path(path) if path else "the file"
            raise node.place.make_error(f"{what} is {_describe_node(node)}.", "Give a mapping: lines of `key: value`.")
        return node.value

    def _read_any(self, node: YamlNode, path: str) -> Any:
        """Read a JSON value of any shape."""
        if isinstance(node.value, dict):
            return {key: self._read_any(each, f"{path}.{key}") for key, each in node.value.items()}
        if isinstance(node.value, list):
            return [self._read_any(each, f"{path}.{number}") for number, each in enumerate(node.value, 1)]
        self._record_source(node, path)
        return self._fill_variables(node, path) if isinstance(node.value, str) else node.value

    def _read_leaf(self, node: YamlNode, hint: Any, path: str) -> Any:
        secret = _is_secret(hint)
        self._record_source(node, path)
        if secret:
            self.hidden_paths.add(path)
        value: object = node.value
        if isinstance(value, list | dict):
            raise node.place.make_error(
                f"{_quote_path(path)} is {_describe_node(node)}.", f"Give {describe_type(hint)}."
            )
        from_outside = isinstance(value, str) and _ENV_PLACEHOLDER.search(value) is not None
        if isinstance(value, str) and from_outside:
            text = self._fill_variables(node, path)
            if self._lenient and _ENV_PLACEHOLDER.search(text):
                return SecretString(text) if secret else text  # it is not used, so its type is not checked
            value = text if _accepts_text(hint) else parse_plain_scalar(text, node.place)
        try:
            read = convert_value(value, hint, _quote_path(path), node.place)
        except BadPolicy:
            if not (secret or from_outside):
                raise
            quotation = (
                f"of another kind than {describe_type(hint)}"
                if secret
                else f"{quote_value(node.value)}, whose value does not fit"
            )
            remedy = f"Give {describe_type(hint)}{', in quotes' if secret else ''}."
            raise node.place.make_error(f"{_quote_path(path)} is {quotation}.", remedy) from None
        if not isinstance(read, str):
            self.hidden_paths.discard(path)
        return SecretString(read) if secret else read

    def _fill_variables(self, node: YamlNode, path: str) -> str:
        text = str(node.value)
        names: list[str] = []

        def value(match: re.Match[str]) -> str:
            names.append(match[1].strip())
            return self._look_up_variable(names[-1], node.place) or match[0]

        filled = _ENV_PLACEHOLDER.sub(value, text)
        if names:
            if path.rpartition(".")[2] not in _SHOWN_KEYS:
                self.hidden_paths.add(path)
            self.sources[path] += " (" + ", ".join(f"${name}" for name in names) + ")"
        return filled

    def _look_up_variable(self, name: str, place: SourcePosition) -> str:
        if not _VARIABLE_NAME.fullmatch(name):
            raise place.make_error(f"{{{{env.{name[:40]}}}}} names no variable.", "Write {{env.NAME}}.")
        variable = self._environment.get(name, "")
        if variable or self._lenient:
            return variable
        what = "is empty" if name in self._environment else "is not set"
        near = get_close_matches(name, [each for each in self._environment if each != name], n=1, cutoff=0.8)
        also = f" Did you mean {near[0]}?" if near else ""
        raise place.make_error(f"the variable {name}, which {{{{env.{name}}}}} asks for, {what}.", f"Set it.{also}")

    def _record_source(self, node: YamlNode, path: str) -> None:
        self.sources[path] = f"{node.key.source}:{node.key.line}"


def find_variables(text: str) -> list[str]:
    """Return the names of the variables in `{{env.NAME}}` placeholders of a text."""
    return [match[1].strip() for match in _ENV_PLACEHOLDER.finditer(text)]


def node_id(node: YamlNode) -> str:
    found = node.value.get("id") if isinstance(node.value, dict) else None
    return found.value if found is not None and isinstance(found.value, str) else ""


def _struct_tag(kind: Any) -> str | int | None:
    config = getattr(kind, "__struct_config__", None)
    return None if config is None else config.tag


def _is_secret(hint: Any) -> bool:
    metas = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return any(isinstance(meta, msgspec.Meta) and (meta.extra or {}).get("secret") for meta in metas)


def _accepts_text(hint: Any) -> bool:
    """Return whether a type accepts text: then the value of a variable is not parsed."""
    try:
        msgspec.convert("", hint)
    except msgspec.ValidationError as error:
        return "got `str`" not in str(error)
    return True


def _quote_path(path: str) -> str:
    return quote_value(path) if path else "the file"


def _describe_node(node: YamlNode) -> str:
    words = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", NoneType: "empty"}
    return words.get(type(node.value), "a number")
