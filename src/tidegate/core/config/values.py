"""The values of a policy file: scalars, expressions with settings, and conversion to types.

    $max_tokens                          the setting itself, of any type
    max(3, $max_context_turns // 6)      numbers, + - * / //, parentheses, min and max
    [Summary of ${name}]                 text with settings in it; $$ is a dollar sign

A string without `$` is a string. Nothing is passed to `eval`: an expression must consist of the tokens below, and only
the listed nodes of its syntax tree are computed, on bounded numbers.
"""

import ast
import difflib
import json
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from tidegate.core.errors import BadPolicy
from tidegate.core.text.lazy_pattern import LazyPattern

Scalar = int | float | str | bool | None
Number = int | float

_MAX_EXPRESSION_CHARS = 200
MAX_NUMBER = 2**53
"""The largest number up to which every int is an exact float."""

TYPE_NAMES: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    NoneType: "null",
    tuple: "a list",
    frozenset: "a list",
}

# The YAML 1.2 core schema (and 1_000): no dates, no octal 010, and `on` is a word.
_INT = LazyPattern(r"[-+]?[0-9][0-9_]*")
_BASED = LazyPattern(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = LazyPattern(
    r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_BRITISH = LazyPattern(r"is(?=e|ing|ation)")
_SETTING = LazyPattern(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_IN_TEXT = LazyPattern(r"\$\$|\$\{([^}]*)\}")
_TOKENS = LazyPattern(r"(?:\$[A-Za-z_][A-Za-z0-9_]*|min\b|max\b|[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+|[-+*/(),]|\s)*")
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A share of the room or the window."""


class SourcePosition(NamedTuple):
    """A file and line. Line 0 means no line, as for settings that a caller passes."""

    source: str
    line: int

    def make_error(self, cause: str, remedy: str) -> BadPolicy:
        line = f":{self.line}" if self.line else ""
        return BadPolicy(f"{self.source}{line}: {cause}", remedy)


def quote_value(value: object) -> str:
    """A value as in the file, short enough for an error message."""
    if not isinstance(value, Scalar):
        return f"a {type(value).__name__}"
    if isinstance(value, int) and abs(value) > 10**30:
        return "a huge number"
    text = json.dumps(value, ensure_ascii=False)
    text = text if text.isprintable() else json.dumps(value)  # an error may end up on a terminal
    return text if len(text) <= 80 else text[:76] + '..."'


def suggest_name(name: str, allowed: Iterable[str]) -> str:
    """The remedy for an unknown name: the most similar name, or all names."""
    names = sorted(allowed)
    matches = difflib.get_close_matches(name[:80], names, n=1)
    if matches:
        return f'Did you mean "{matches[0]}"?'
    return f"There is {', '.join(names)}." if names else "There is none here."


def match_spelling(name: str, names: Collection[str]) -> str:
    """The known name that differs from `name` only by British or American spelling; else `name` itself."""
    if name in names:
        return name
    return next((each for each in names if have_same_spelling(each, name)), name)


def have_same_spelling(one: object, other: object) -> bool:
    """Whether two texts are equal, `-ise` and `-ize` (`-ising`, `-isation`) being the same."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    return _BRITISH.sub("iz", one) == _BRITISH.sub("iz", other)


def parse_plain_scalar(text: str, place: SourcePosition) -> Scalar:
    """The value of a scalar written without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    value: Scalar = text
    if len(text) > 40:
        return text
    if _INT.fullmatch(text):
        value = int(text)
    elif _BASED.fullmatch(text):
        value = int(text, 0)
    elif _FLOAT.fullmatch(text):
        value = float(text.replace("_", "").replace(".i", "i").replace(".n", "n"))
    return check_scalar(value, place)


def check_scalar(value: Scalar, place: SourcePosition) -> Scalar:
    """The value, if it is not too large and has no lone surrogates; else BadPolicy."""
    if isinstance(value, Number) and not abs(value) <= MAX_NUMBER:
        raise place.make_error(f"{quote_value(value)} is not a number to use here.", f"Stay below {MAX_NUMBER:,}.")
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise place.make_error(f"{quote_value(value)} holds half a character.", "Write the character itself.")
    return value


def check_setting_names(text: str, settings: Mapping[str, Scalar], place: SourcePosition) -> list[str]:
    """The settings that a value names. Each must exist, even if the value is not used now."""
    if "${" in text:
        names = [match[1] for match in _IN_TEXT.finditer(text) if match[1] is not None]
    else:
        names = _SETTING.findall(text.replace("$$", ""))
    for name in names:
        if name not in settings:
            raise place.make_error(
                f"unknown setting {quote_value('$' + name)} in {quote_value(text)}.", suggest_name(name, settings)
            )
    return names


def evaluate_string(text: str, settings: Mapping[str, Scalar], place: SourcePosition) -> Scalar:
    """The value of a string in a policy file."""
    names = check_setting_names(text, settings, place)
    if len(names) == 1 and text.strip() in (f"${names[0]}", f"${{{names[0]}}}"):
        return settings[names[0]]
    if names and "${" not in text:
        return evaluate_number(text, settings, place)
    return _IN_TEXT.sub(lambda match: "$" if match[1] is None else _as_text(settings[match[1]]), text)


def _as_text(value: Scalar) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def evaluate_number(text: str, settings: Mapping[str, Scalar], place: SourcePosition) -> Number:
    """The value of an expression. A whole number is an int, so that `/` may be used where an int is wanted."""

    def number_of(match: re.Match[str]) -> str:
        value = settings[match[1]]
        if isinstance(value, bool) or not isinstance(value, Number):
            raise place.make_error(
                f"{match[0]} is {quote_value(value)} in {quote_value(text)}.", "Only numbers can be reckoned with."
            )
        return f"({value!r})"

    allowed = "Write numbers, $settings, + - * / // ( ) min max; in text write ${name}, and $$ for a dollar sign."
    if len(text) > _MAX_EXPRESSION_CHARS:
        raise place.make_error(
            f"expression {quote_value(text)} is too long.", f"Keep it under {_MAX_EXPRESSION_CHARS} characters."
        )
    names = check_setting_names(text, settings, place)
    if not _TOKENS.fullmatch(text):
        raise place.make_error(f"bad expression {quote_value(text)}.", allowed)
    try:
        value = _compute(ast.parse(_SETTING.sub(number_of, " ".join(text.split())), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise place.make_error(f"bad expression {quote_value(text)}.", allowed) from None
    except ZeroDivisionError:
        values = ", ".join(f"{name} is {settings[name]}" for name in dict.fromkeys(names))
        raise place.make_error(
            f"division by zero in {quote_value(text)}{f' ({values})' if values else ''}.",
            "Give a divisor that is not 0.",
        ) from None
    except OverflowError:
        raise place.make_error(
            f"{quote_value(text)} comes to too large a number.", f"Stay below {MAX_NUMBER:,}."
        ) from None
    return int(value) if value == int(value) else value


def _compute(node: ast.expr) -> Number:
    value: Number
    match node:
        case ast.Constant(value=int() | float() as value):
            pass
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            value = -_compute(operand) if isinstance(sign, ast.USub) else _compute(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            value = _ARITHMETIC[type(op)](_compute(left), _compute(right))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, *_] as args, keywords=[]):
            numbers = [_compute(arg) for arg in args]
            value = min(numbers) if name == "min" else max(numbers)
        case _:
            raise ValueError
    if abs(value) > MAX_NUMBER:
        raise OverflowError
    return value


def convert_value(value: object, hint: Any, what: str, place: SourcePosition) -> Any:
    """The value as the annotated type, without coercion: `"5"` is not a number and 1 is not true."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as bad:
        why = str(bad).partition(" - at")[0]
        raise place.make_error(f"{what} is {describe_mismatch(value, why)}.", suggest_value(value, hint)) from None


def describe_mismatch(value: object, why: str) -> str:
    """A value and msgspec's reason why it does not fit."""
    return f"{quote_value(value)} ({why[:1].lower()}{why[1:].replace('`', '')})"


def suggest_value(value: object, hint: Any) -> str:
    """The remedy for a value that does not fit its type."""
    choices = [str(choice) for choice in get_args(hint)] if get_origin(hint) is Literal else []
    return suggest_name(value, choices) if isinstance(value, str) and choices else f"Give {describe_type(hint)}."


def _describe_range(meta: object) -> str:
    if not isinstance(meta, msgspec.Meta) or meta.ge is None:
        return ""
    return f" from {meta.ge} to {meta.le}" if meta.le is not None else f" ({meta.ge} or more)"


def describe_type(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) is Literal:
        return " or ".join(quote_value(choice) for choice in get_args(hint))
    if get_origin(hint) is Annotated:
        base, *limits = get_args(hint)
        return describe_type(base) + "".join(_describe_range(each) for each in limits)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(describe_type(choice) for choice in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, str):
        return TYPE_NAMES[str]
    return TYPE_NAMES.get(hint) or TYPE_NAMES.get(get_origin(hint)) or str(hint)
