"""Reads the nodes of a configuration into typed settings, and records the position of each.

`{{env.NAME}}` in a text is replaced from the environment. Error messages never contain values from the environment or
values marked as secret.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from tidegate.agent.config.settings import LISTS_WITH_IDS, list_setting_parts
from tidegate.core.config.conversion import Misfit, convert_node, is_container, make_misfit_error, node_id
from tidegate.core.config.values import SourcePosition, parse_plain_scalar, quote_value
from tidegate.core.config.yaml_tree import YamlNode
from tidegate.core.errors import BadPolicy
from tidegate.core.text.secrets import SecretString

_ENV_PLACEHOLDER = re.compile(r"\{\{\s*env\s*\.([^{}]*)\}\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_ITEMS = 200
_SHOWN_KEYS = frozenset("base_url model provider".split())
"""Keys whose values may be shown although they come from the environment; any other may be a secret."""


class SettingsReader:
    """`sources` has the position of every path that was read, `hidden_paths` the paths that must not be shown.

    A variable that is not set is an error only if its value is used: `unset` has the errors by path. Until then a text
    stays as it is written, and any other value is the default.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.sources: dict[str, str] = {}
        self.hidden_paths: set[str] = set()
        self.unset: dict[str, BadPolicy] = {}

    def read(self, node: YamlNode, hint: Any, path: str) -> Any:
        settings = convert_node(node, hint, path, tree=self._fill_variables(node, path), repair=self._parse_variable)
        self._hide_secrets(settings, path)
        return settings

    def require_variables(self, is_used: Callable[[str], bool]) -> None:
        """Raise the error of the first variable that is not set, of the paths that are used."""
        for path, error in self.unset.items():
            if is_used(path):
                raise error

    def _fill_variables(self, node: YamlNode, path: str) -> object:
        """The plain values of a node with its variables filled in."""
        self.sources[path] = f"{node.key.source}:{node.key.line}"
        if isinstance(node.value, dict):
            return {key: self._fill_variables(each, _join(path, key)) for key, each in node.value.items()}
        if isinstance(node.value, list):
            _check_items(node, path)
            return [
                self._fill_variables(each, _join(path, node_id(each) or str(number)))
                for number, each in enumerate(node.value, 1)
            ]
        names = find_variables(node.value) if isinstance(node.value, str) else []
        if isinstance(node.value, float) and node.value.is_integer():
            return int(node.value)
        if not names:
            return node.value
        if path.rpartition(".")[2] not in _SHOWN_KEYS:
            self.hidden_paths.add(path)
        self.sources[path] += " (" + ", ".join(f"${name}" for name in names) + ")"
        return _ENV_PLACEHOLDER.sub(lambda match: self._look_up_variable(match, node.place, path), str(node.value))

    def _look_up_variable(self, match: re.Match[str], place: SourcePosition, path: str) -> str:
        name = match[1].strip()
        if not _VARIABLE_NAME.fullmatch(name):
            raise place.make_error(f"{{{{env.{name[:40]}}}}} is not the name of a variable.", "Write {{env.NAME}}.")
        variable = self._environment.get(name, "")
        if not variable:
            what = "is empty" if name in self._environment else "is not set"
            near = get_close_matches(name, [each for each in self._environment if each != name], n=1, cutoff=0.8)
            also = f" Did you mean {near[0]}?" if near else ""
            self.unset.setdefault(
                path, place.make_error(f"the variable {name}, which {match[0]} asks for, {what}.", f"Set it.{also}")
            )
        return variable or match[0]

    def _parse_variable(self, misfit: Misfit) -> bool:
        """Parse the text of a variable where another type is wanted; without one, the value is the default."""
        for path, error in self.unset.items():
            if misfit.why.startswith("Object missing") and path.rpartition(".")[0] == misfit.path:
                raise error
        if is_container(misfit.hint):
            return False
        is_secret = isinstance(misfit.hint, type) and issubclass(misfit.hint, SecretString)
        value = misfit.holder[misfit.key]
        is_filled = isinstance(misfit.node.value, str) and _ENV_PLACEHOLDER.search(misfit.node.value) is not None
        if is_filled and misfit.path in self.unset:
            if not isinstance(misfit.holder, dict) or misfit.path.endswith(".type"):
                raise self.unset[misfit.path]
            del misfit.holder[misfit.key]
            return True
        if is_filled and isinstance(value, str):
            misfit.holder[misfit.key] = parse_plain_scalar(value, misfit.node.place)
            if misfit.holder[misfit.key] != value:
                return True
        if is_filled:
            raise make_misfit_error(misfit, f"{quote_value(misfit.node.value)}, whose value does not fit")
        if is_secret:
            raise make_misfit_error(misfit, "of another kind than text in quotes")
        return False

    def _hide_secrets(self, value: object, path: str) -> None:
        """Hide every secret, and show what is not text."""
        if isinstance(value, SecretString):
            self.hidden_paths.add(path)
        elif not isinstance(value, str):
            self.hidden_paths.discard(path)
        for name, each in list_setting_parts(value) or ():
            self._hide_secrets(each, _join(path, name))


def find_variables(text: str) -> list[str]:
    """Return the names of the variables in `{{env.NAME}}` placeholders of a text."""
    return [match[1].strip() for match in _ENV_PLACEHOLDER.finditer(text)]


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _check_items(node: YamlNode, path: str) -> None:
    """Check the length of a list, and the ids of its items, which must be unique."""
    assert isinstance(node.value, list)
    if len(node.value) > _MAX_ITEMS:
        raise node.place.make_error(f"{quote_value(path)} has {len(node.value)} items.", f"Keep to {_MAX_ITEMS}.")
    lines: dict[str, int] = {}
    for each in node.value if tuple(path.split(".")) in LISTS_WITH_IDS else ():
        ident = node_id(each)
        if ident in lines:
            raise each.place.make_error(
                f"id {quote_value(ident)} in {quote_value(path)} is taken by line {lines[ident]}.", "Rename."
            )
        if ident:
            lines[ident] = each.place.line
