"""List the settings of a policy that can be tuned, and write a policy file with other values for them."""

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.core.errors import BadInput
from tidegate.core.policy.policy import Policy
from tidegate.presets import preset_names

_SEARCH_FACTOR: Final = 4
_RANGE_PATTERN: Final = re.compile(r"(\w+)=(-?[\d.]+?)\.\.(-?[\d.]+)").fullmatch


class TunableSetting(NamedTuple):
    """A setting and its bounds. A range over orders of magnitude is searched by its logarithm."""

    name: str
    low: float
    high: float
    is_integer: bool
    is_logarithmic: bool

    def format_value(self, value: float) -> str:
        """Format a value for a policy file, with three significant digits."""
        return str(round(value)) if self.is_integer else f"{value:.3g}"


def list_tunable_settings(policy: Policy, vary: Sequence[str] = ()) -> list[TunableSetting]:
    """Return the named settings, or every number above 0: shares within 0 and 1, others from a quarter to fourfold."""
    numbers = {
        name: value
        for name, value in policy.settings.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if vary:
        return [_parse_range(text, numbers) for text in vary]
    settings = [_default_range(name, value) for name, value in numbers.items() if value > 0]
    if not settings:
        raise BadInput(f"The policy {policy.name} has no number to search.", "Name a policy with settings.")
    return settings


def _default_range(name: str, value: float) -> TunableSetting:
    if isinstance(value, int):
        return TunableSetting(name, max(1, value // _SEARCH_FACTOR), value * _SEARCH_FACTOR, True, True)
    if value < 1:
        return TunableSetting(
            name, round(value / _SEARCH_FACTOR, 4), round(min(0.98, value * _SEARCH_FACTOR), 4), False, False
        )
    return TunableSetting(name, value / _SEARCH_FACTOR, value * _SEARCH_FACTOR, False, True)


def _parse_range(text: str, numbers: Mapping[str, float]) -> TunableSetting:
    match = _RANGE_PATTERN(text)
    if match is None:
        raise BadInput(f"{text!r} is not NAME=LOW..HIGH.", "Write for instance keep_results=2..20.")
    name = match[1]
    if name not in numbers:
        raise BadInput(f"The policy has no number {name!r}.", f"There are: {', '.join(numbers)}.")
    try:
        low, high = float(match[2]), float(match[3])
    except ValueError:
        raise BadInput(f"{text!r}: not two numbers.", "Write for instance keep_results=2..20.") from None
    if not low < high:
        raise BadInput(f"{text!r}: the bounds are not in order.", "Give the lower one first.")
    whole = isinstance(numbers[name], int)
    return TunableSetting(name, low, high, whole, whole and low > 0 and high >= 10 * low)


def read_policy_text(name: str) -> str:
    if name in preset_names():
        return resources.files("tidegate.presets").joinpath(f"{name}.yaml").read_text("utf-8")
    return Path(name).read_text("utf-8-sig")


def rewrite_policy_settings(text: str, settings: Mapping[str, str], comments: Sequence[str]) -> str:
    """Return the policy file with other values. The rest of it, with its comments, stays."""
    lines = text.splitlines()
    inside = False
    for place, line in enumerate(lines):
        if line and not line.startswith((" ", "#")):
            inside = line.startswith("settings:")
            continue
        match = re.fullmatch(r"(\s+)(\w+):(\s*)([^#]*?)(\s+#.*)?", line) if inside else None
        if match and match[2] in settings:
            lines[place] = f"{match[1]}{match[2]}: {settings[match[2]]}{match[5] or ''}"
    return "\n".join([*(f"# {line}".rstrip() for line in comments), *lines]) + "\n"
