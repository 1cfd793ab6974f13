"""The settings of a policy that can be searched, and a policy file written with other values for them."""

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.core.errors import BadInput
from tidegate.core.policy import Policy
from tidegate.presets import names

SPAN: Final = 4
_RANGE: Final = re.compile(r"(\w+)=(-?[\d.]+?)\.\.(-?[\d.]+)").fullmatch


class Knob(NamedTuple):
    """A setting and its bounds. What spans orders of magnitude is searched by its logarithm."""

    name: str
    low: float
    high: float
    whole: bool
    log: bool

    def written(self, value: float) -> str:
        """As it stands in a policy file: short, for a third decimal is not worth believing."""
        return str(round(value)) if self.whole else f"{value:.3g}"


def knobs_of(policy: Policy, vary: Sequence[str] = ()) -> list[Knob]:
    """Those asked for, or every number above 0: shares within 0 and 1, others from a quarter to fourfold."""
    numbers = {
        name: value
        for name, value in policy.settings.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if vary:
        return [_asked_for(text, numbers) for text in vary]
    found = [_around(name, value) for name, value in numbers.items() if value > 0]
    if not found:
        raise BadInput(f"The policy {policy.name} has no number to search.", "Name a policy with settings.")
    return found


def _around(name: str, value: float) -> Knob:
    if isinstance(value, int):
        return Knob(name, max(1, value // SPAN), value * SPAN, True, True)
    if value < 1:
        return Knob(name, round(value / SPAN, 4), round(min(0.98, value * SPAN), 4), False, False)
    return Knob(name, value / SPAN, value * SPAN, False, True)


def _asked_for(text: str, numbers: Mapping[str, float]) -> Knob:
    match = _RANGE(text)
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
    return Knob(name, low, high, whole, whole and low > 0 and high >= 10 * low)


def policy_text(name: str) -> str:
    if name in names():
        return resources.files("tidegate.presets").joinpath(f"{name}.yaml").read_text("utf-8")
    return Path(name).read_text("utf-8-sig")


def with_settings(text: str, settings: Mapping[str, str], comments: Sequence[str]) -> str:
    """The same policy file with other values; whatever else it says, and its own comments, stay."""
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
