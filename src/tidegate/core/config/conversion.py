"""Converts nodes of a YAML file into typed values. The types define the format, and msgspec checks it.

The fields of a struct are its keys, a field without a default is required, and a union of tagged structs is selected by
`type`. A whole tree is converted at once. Only if it does not fit is the place looked up, for an error that names file,
line and value, what to write instead, and the name that was probably meant.
"""

import re
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from tidegate.core.config.values import describe_mismatch, describe_type, quote_value, suggest_name, suggest_value
from tidegate.core.config.yaml_tree import YamlNode
from tidegate.core.errors import BadPolicy
from tidegate.core.text.lazy_pattern import LazyPattern

_TAG: Final = "type"
_STEP: Final = LazyPattern(r"\.([^.\[\]`]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN_KEY: Final = LazyPattern(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_KEY: Final = LazyPattern(r"Object missing required field `(.*)`")


class Misfit(NamedTuple):
    """A value that does not fit: its node and type, its path, msgspec's reason, and its place in the plain tree."""

    node: YamlNode
    hint: Any
    path: str
    why: str
    holder: Any
    key: Any


def convert_node(
    node: YamlNode, hint: Any, path: str = "", *, tree: object = None, repair: Callable[[Misfit], bool] | None = None
) -> Any:
    """Convert a node, or else `tree`, its plain values after a change of some texts.

    `repair` may put another value into the place of one that does not fit, and return True; or raise its own error.
    """
    box = [node.to_plain() if tree is None else tree]
    while True:
        try:
            return msgspec.convert(box[0], hint, dec_hook=_make_text)
        except msgspec.ValidationError as error:
            misfit = _find_misfit(str(error), box, node, hint, path)
        if not _fill_empty(misfit) and not (repair and repair(misfit)):
            raise make_misfit_error(misfit)


def make_misfit_error(misfit: Misfit, quotation: str = "") -> BadPolicy:
    """The error for a value that does not fit. `quotation` is what it says of a value instead of quoting it."""
    node, hint, why = misfit.node, misfit.hint, misfit.why
    what = quote_value(misfit.path) if misfit.path else "the file"
    if match := _UNKNOWN_KEY.fullmatch(why):
        key, inside = _inner_node(node, match[1]), f" in {what}" if misfit.path else ""
        return key.key.make_error(f"unknown key {quote_value(match[1])}{inside}.", suggest_name(match[1], _keys(hint)))
    if match := _MISSING_KEY.fullmatch(why):
        tags = _tagged_structs(hint)
        remedy = suggest_name("", tags) if match[1] == _TAG and tags else f"Add the key {match[1]}."
        return node.place.make_error(f'{what} has no "{match[1]}".', remedy)
    if isinstance(node.value, list | dict) or is_container(hint):
        return node.place.make_error(f"{what} is {_describe_kind(node)}.", f"Give {_describe_container(hint)}.")
    quotation = quotation or describe_mismatch(node.value, why)
    return node.place.make_error(f"{what} is {quotation}.", suggest_value(node.value, hint))


def _find_misfit(error: str, box: list[Any], node: YamlNode, hint: Any, path: str) -> Misfit:
    """Follow the path in an error of msgspec, such as `$.agents[0].model` or `$.providers[...].wire`."""
    why, _, place = error.rpartition(" - at `$")
    holder: Any = box
    key: Any = 0
    for name, index in _STEP.findall(place if why else ""):
        plain, hint = holder[key], _resolve_union(hint, holder[key])
        tags, types = _tagged_structs(hint), _field_types(hint)
        if index == "...":
            inner, word = get_args(hint)[1], next(each for each in plain if not _fits(plain[each], get_args(hint)[1]))
        elif index:
            inner, word = get_args(hint)[0], int(index)
        else:
            inner, word = types.get(name) or Literal[tuple(tags)], name
        holder, key, hint, node = plain, word, inner, _inner_node(node, word)
        part = str(word if isinstance(word, str) else node_id(node) or word + 1)
        path = f"{path}.{part}" if path else part
    return Misfit(node, _resolve_union(hint, holder[key]), path, why or place or error, holder, key)


def _fits(value: object, hint: Any) -> bool:
    try:
        msgspec.convert(value, hint, dec_hook=_make_text)
    except msgspec.ValidationError:
        return False
    return True


def _fill_empty(misfit: Misfit) -> bool:
    """A key without a value is an empty list or mapping, so a struct with all its defaults."""
    if misfit.holder[misfit.key] is not None or not is_container(misfit.hint):
        return False
    misfit.holder[misfit.key] = [] if get_origin(misfit.hint) is tuple else {}
    return True


def _make_text(kind: type, value: object) -> object:
    """Make a subclass of `str`. BadType for values of other types, which no file can have."""
    if issubclass(kind, str) and isinstance(value, str):
        return kind(value)
    raise TypeError(f"Expected `str`, got `{type(value).__name__}`")


def node_id(node: YamlNode) -> str:
    """The id of an item of a list, by which it is named; "" if it has none."""
    id_node = node.value.get("id") if isinstance(node.value, dict) else None
    return id_node.value if id_node is not None and isinstance(id_node.value, str) else ""


def _inner_node(node: YamlNode, key: str | int) -> YamlNode:
    return node.elements[key] if isinstance(key, int) else node.entries.get(key, node)


# --- types ----------------------------------------------------------------------------------------------------------


def _resolve_union(hint: Any, value: object) -> Any:
    """The type without null; of tagged structs, the one that the value names."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    rest = [choice for choice in get_args(hint) if choice is not NoneType]
    if len(rest) == 1:
        return rest[0]
    tag = value.get(_TAG) if isinstance(value, dict) else None
    return _tagged_structs(hint).get(tag, hint) if isinstance(tag, str) else hint


def _tagged_structs(hint: Any) -> Mapping[str, Any]:
    """The structs of a type by their tags. One with the tag "" is for programs, not for files."""
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return {
        str(each.__struct_config__.tag): each for each in choices if _is_struct(each) and each.__struct_config__.tag
    }


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def is_container(hint: Any) -> bool:
    """Whether a type is written as a mapping or a list."""
    return _is_struct(hint) or get_origin(hint) in (tuple, dict) or bool(_tagged_structs(hint))


def _field_types(hint: Any) -> Mapping[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(hint)} if _is_struct(hint) else {}


def _keys(hint: Any) -> list[str]:
    return [*_field_types(hint), *([_TAG] if _tagged_structs(hint) else [])]


def _describe_container(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return "a list: lines that begin with a dash"
    return "a mapping: lines of `key: value`" if is_container(hint) else describe_type(hint)


def _describe_kind(node: YamlNode) -> str:
    """The kind of a value, which may be a secret in the wrong place: it is not quoted."""
    words = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", NoneType: "empty"}
    return words.get(type(node.value), "a number")
