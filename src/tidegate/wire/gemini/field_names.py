"""Names of Gemini's fields. The API takes each in two spellings: `functionCall` and `function_call`."""

from collections.abc import Mapping

from tidegate.core.text.lazy_pattern import LazyPattern

_UPPERCASE, _UNDERSCORED = LazyPattern(r"[A-Z]"), LazyPattern(r"_([a-z])")


def with_camel_case(value: Mapping[str, object]) -> dict[str, object]:
    return {_UNDERSCORED.sub(lambda found: found[1].upper(), name): field for name, field in value.items()}


def get_field(value: Mapping[str, object], name: str) -> object:
    """Return a field by its name, `functionCall`, or by its other spelling, `function_call`."""
    return value.get(name, value.get(_UPPERCASE.sub(lambda letter: "_" + letter[0].lower(), name)))
