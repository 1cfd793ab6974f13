"""Reading a provider's usage report without knowing its dialect."""

from collections.abc import Mapping

from tidegate.core.usage import Usage
from tidegate.wire.registry import DIALECTS
from tidegate.wire.usage import INPUT_USAGE, UsageForm, bound_usage


def _list_forms() -> list[UsageForm]:
    return list(dict.fromkeys(dialect.usage for dialect in DIALECTS.values()))


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
    form = next((form for form in _list_forms() if form.fields[0] in usage), INPUT_USAGE)
    return bound_usage(form.read(usage))


def read_compaction_usage(usage: Mapping[str, object]) -> Usage | None:
    """Read what a compaction by the provider cost; None if there was none."""
    return next((found for form in _list_forms() if (found := form.read_compaction(usage)) is not None), None)
