"""Takes over the configuration file of another agent: writes a `tidegate.yaml` and reports what became of each key.

Every value is checked as it would be in a file that a person wrote; one that is not valid is left out and reported.
API keys are not copied. The new file is a project's file, so commands and addresses in it need the user's trust.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidegate.agent.config.files import CONFIG_FILE, parse_config
from tidegate.agent.config.foreign_formats import (
    FOREIGN_FORMATS,
    ForeignEntry,
    ForeignFormat,
    get_path,
    recognize_format,
)
from tidegate.agent.config.provider_target import KNOWN_PROVIDERS
from tidegate.agent.config.reader import find_variables
from tidegate.agent.config.resolved_config import load_configured_policy
from tidegate.agent.config.settings import LISTS_WITH_IDS
from tidegate.agent.config.trust import find_environment_variables, find_risky_keys
from tidegate.core.config.yaml_tree import MAX_YAML_CHARS, read_yaml
from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.text.secrets import SecretMask

_SECRET_WORDS: Final = ("key", "token", "secret", "password")
_NO_EQUIVALENT: Final = "no equivalent"
_Tree = dict[str, Any]


class UnusedKey(NamedTuple):
    """A key of the foreign file that was not taken over, and why."""

    key: str
    reason: str


class ConfigImport(NamedTuple):
    """What became of a file. `variables` must be set to the API keys, which are not copied."""

    system: str
    text: str
    taken: list[ForeignEntry]
    unused: list[UnusedKey]
    variables: list[str]
    risks: list[str]


def convert_config(path: Path) -> ConfigImport:
    """Convert the file of another agent. BadInput if it cannot be read or is of no known system."""
    values = _read_values(path)
    source_format = recognize_format(values)
    if source_format is None:
        systems = ", ".join(each.system for each in FOREIGN_FORMATS)
        raise BadInput(f"{path} is not a configuration of a known agent.", f"Known are {systems}.")
    entries, refusals = _check_entries(source_format, list(source_format.list_entries(values)))
    text = _write_text(source_format, path, entries)
    top = read_yaml(text, CONFIG_FILE)
    return ConfigImport(
        source_format.system,
        text,
        entries,
        [*refusals, *_list_unused(values, [*entries, *refusals]), *_list_models_without_provider(entries)],
        sorted({*find_environment_variables(top), *_list_key_variables(entries)}),
        find_risky_keys(top),
    )


def import_config(path: Path, folder: Path) -> ConfigImport:
    """Convert a file and write the `tidegate.yaml` of the folder. An existing one is never overwritten."""
    converted = convert_config(path)
    target = folder / CONFIG_FILE
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(converted.text)
    except FileExistsError:
        raise BadInput(f"There is a {target} already.", "Move it away, or run this in another folder.") from None
    except OSError as error:
        raise BadInput(f"{target} cannot be written: {error.strerror}.", "Run this in another folder.") from None
    return converted


def _read_values(path: Path) -> _Tree:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_YAML_CHARS + 1).decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.", "Name a file that exists.") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text.", "Name a configuration file.") from None
    try:
        if path.suffix == ".json":
            values = json.loads(text)
        elif path.suffix == ".toml":
            values = tomllib.loads(text)
        else:
            values = read_yaml(text, str(path)).to_plain()
    except (ValueError, RecursionError):
        raise BadInput(f"{path} cannot be parsed as {path.suffix[1:].upper()}.", "Correct it first.") from None
    except TidegateError as error:  # the parser may quote a secret
        raise BadInput(SecretMask()(error.args[0]), error.remedy) from None
    return values if isinstance(values, dict) else {}


# --- checking -------------------------------------------------------------------------------------------------------


class _EntryCheck(NamedTuple):
    taken: list[ForeignEntry]
    refused: list[UnusedKey]


def _check_entries(source_format: ForeignFormat, entries: Sequence[ForeignEntry]) -> _EntryCheck:
    """Take the entries that make a valid file together. Parts of one hook or MCP server are taken together."""
    foreign_entries: list[ForeignEntry] = []
    keys: list[UnusedKey] = []
    for unit in _group_entries(entries):
        valid, left_out = unit, list[ForeignEntry]()
        problem = _find_problem(source_format, [*foreign_entries, *valid])
        while problem and valid:  # leave out the one that is wrong, or all
            smaller = [[each for each in valid if each is not one] for one in valid]
            sound = next((some for some in smaller if not _find_problem(source_format, [*foreign_entries, *some])), [])
            left_out += [each for each in valid if each not in sound]
            valid, problem = sound, (problem if not sound else "")
        foreign_entries += valid
        why = _find_problem(source_format, [*foreign_entries, *left_out]) or problem
        keys += [UnusedKey(".".join(each.key), why) for each in left_out]
    return _EntryCheck(foreign_entries, keys)


def _group_entries(entries: Sequence[ForeignEntry]) -> list[list[ForeignEntry]]:
    units: dict[tuple[str, ...], list[ForeignEntry]] = {}
    for each in dict.fromkeys((entry.key, entry.setting) for entry in entries):
        entry = next(entry for entry in entries if (entry.key, entry.setting) == each)
        size = {"mcp": 2, "execution": 3}.get(entry.setting[0], len(entry.setting))
        units.setdefault(entry.setting[:size], []).append(entry)
    return list(units.values())


def _find_problem(source_format: ForeignFormat, entries: Sequence[ForeignEntry]) -> str:
    """Return what is wrong with these entries as a file; "" if nothing is."""
    if any(_holds_secret(each.value) for each in entries):
        return "it looks like a secret, which is not copied"
    text = _write_tree(_build_tree(source_format, entries))
    variables = dict.fromkeys(find_variables(text), "x")
    try:
        load_configured_policy(parse_config(text, variables))
    except TidegateError as error:
        return re.sub(rf"^{re.escape(CONFIG_FILE)}:\d+: ", "", SecretMask()(error.args[0]))
    return ""


def _holds_secret(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_holds_secret, value))
    return isinstance(value, str) and SecretMask()(value) != value


# --- the new file ---------------------------------------------------------------------------------------------------


def _build_tree(source_format: ForeignFormat, entries: Sequence[ForeignEntry]) -> _Tree:
    tree: _Tree = {"policy": {"name": source_format.preset}}
    for entry in entries:
        place = tree
        for key in entry.setting[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                return {}
        place[entry.setting[-1]] = entry.value
    for path in LISTS_WITH_IDS:
        items = get_path(tree, path)
        if isinstance(items, dict):
            get_path(tree, path[:-1])[path[-1]] = [{"id": key, **each} for key, each in items.items()]
    return tree


def _write_text(source_format: ForeignFormat, path: Path, entries: Sequence[ForeignEntry]) -> str:
    head = f"# Taken over from {path.name} of {source_format.system} by `tidegate config import`.\n"
    return head + _write_tree(_build_tree(source_format, entries))


def _write_tree(tree: Mapping[str, Any], indent: str = "") -> str:
    """Write nested mappings as YAML blocks, and everything else as JSON, which is YAML."""
    lines: list[str] = []
    for key, value in tree.items():
        name = key if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", key) else json.dumps(key, ensure_ascii=False)
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{name}:\n{_write_tree(value, indent + '  ')}")
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            items = "".join(_write_item(each, indent + "  ") for each in value)
            lines.append(f"{indent}{name}:\n{items}")
        else:
            lines.append(f"{indent}{name}: {json.dumps(value, ensure_ascii=False)}\n")
    return "".join(lines)


def _write_item(item: Mapping[str, Any], indent: str) -> str:
    block = _write_tree(item, indent + "  ")
    return f"{indent}- {block[len(indent) + 2 :]}"


# --- the report -----------------------------------------------------------------------------------------------------


def _list_unused(values: _Tree, entries: Sequence[ForeignEntry | UnusedKey]) -> list[UnusedKey]:
    names = {".".join(each.key) if isinstance(each.key, tuple) else each.key for each in entries}
    return list(_iterate_unused(values, (), names))


def _iterate_unused(values: object, path: tuple[str, ...], names: set[str]) -> Iterator[UnusedKey]:
    """Yield the keys of which nothing was used, the outermost only. Items of a list count by their ids."""
    name = ".".join(path)
    if name in names:
        return
    parts = (
        {str(each["id"]): each for each in values if isinstance(each, dict) and "id" in each}
        if isinstance(values, list)
        else values
    )
    if path and not any(each.startswith(f"{name}.") for each in names):
        if path[-1] != "id":
            secret = any(word in path[-1].lower() for word in _SECRET_WORDS)
            yield UnusedKey(name, "API keys are not copied" if secret else _NO_EQUIVALENT)
        return
    for key, each in parts.items() if isinstance(parts, dict) else ():
        yield from _iterate_unused(each, (*path, str(key)), names)


def _list_models_without_provider(entries: Sequence[ForeignEntry]) -> Iterator[UnusedKey]:
    settings = {each.setting for each in entries}
    for each in entries:
        if each.setting[-1] == "model" and (*each.setting[:-1], "provider") not in settings:
            place = ".".join(each.setting[:-1])
            yield UnusedKey("provider", f"that of the model {each.value} is not known: set {place}.provider")


def _list_key_variables(entries: Sequence[ForeignEntry]) -> Iterator[str]:
    """Yield the variables that the providers of the models read their keys from."""
    for each in entries:
        if each.setting[-1] == "key_env":
            yield str(each.value)
        elif each.setting[-1] == "provider" and each.value in KNOWN_PROVIDERS:
            variable = KNOWN_PROVIDERS[str(each.value)].key_env
            if variable:
                yield variable
