"""Reading a provider's usage report without knowing its dialect."""

from collections.abc import Mapping
from functools import cache

from tidegate.core.usage import Usage
from tidegate.wire.registry import DIALECTS
from tidegate.wire.usage import INPUT_USAGE, UsageForm, bound_usage


def _list_forms() -> list[UsageForm]:
    return _list_forms_of(tuple(DIALECTS))


@cache
def _list_forms_of(names: tuple[str, ...]) -> list[UsageForm]:
    return list(dict.fromkeys(DIALECTS[name].usage for name in names))


def list_usage_fields() -> list[str]:
    """The fields by which reports are known, those of each dialect."""
    return list(dict.fromkeys(field for form in _list_forms() for field in form.fields))


def is_usage(usage: Mapping[str, object] | None) -> bool:
    """Whether this can be a usage report: it has a known field, or it is empty because nothing was counted."""
    return not usage or any(name in usage for form in _list_forms() for name in (*form.fields, *form.further_fields))


def read_usage(usage: Mapping[str, object]) -> Usage:
    """Read a usage report. A missing or impossible number is 0.

    What a compaction by the provider cost is not in it: it says nothing about the size of the request.
    """
    for form in _list_forms():
        if form.fields[0] in usage:
            return bound_usage(form.read(usage))
    return bound_usage(INPUT_USAGE.read(usage))


def read_compaction_usage(usage: Mapping[str, object]) -> Usage | None:
    """Read what a compaction by the provider cost; None if there was none."""
    readers = (form.read_compaction for form in _list_forms() if form.read_compaction is not None)
    return next((found for read in readers if (found := read(usage)) is not None), None)
