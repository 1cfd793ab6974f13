"""Objects of provider SDKs as plain JSON values, without importing any SDK.

The SDKs of OpenAI, Anthropic and Gemini return pydantic models, which have `model_dump`. Frameworks also hand over
subclasses of `str`, `dict` and `list`.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

_MAX_DEPTH = 200


@runtime_checkable
class SdkModel(Protocol):
    """An object of a provider's SDK: a reply, its message, or its usage."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """Return the fields as a dictionary (pydantic)."""


def to_plain_json(value: object, depth: int = 0) -> object:
    """Return the value with plain types only. Values that are no JSON are returned as they are."""
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    if value is None or isinstance(value, bool | int | float) or depth > _MAX_DEPTH:  # the parser refuses the last
        return value
    if isinstance(value, Mapping):
        return {
            key if type(key) is str or not isinstance(key, str) else str.__str__(key): to_plain_json(each, depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [to_plain_json(each, depth + 1) for each in value]
    if isinstance(value, SdkModel) and not isinstance(value, type):
        return to_plain_json(value.model_dump(mode="json", by_alias=True, exclude_none=True), depth + 1)
    return value
