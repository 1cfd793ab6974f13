"""`policies`: the presets, as a list or as the files they are. In a chat, `/policy NAME` switches to one."""

from argparse import Namespace
from typing import Final

from tidegate.commands.operations.operation import Argument, Operation, OperationResult, SessionPlace

_WIDTH: Final = 100
_MAX_WIDTH: Final = 120


def _policies(place: SessionPlace, values: Namespace) -> OperationResult:
    import textwrap
    from importlib import resources

    from tidegate.core.config.values import quote_value, suggest_name
    from tidegate.core.errors import BadPolicy
    from tidegate.presets import load, preset_names

    names = preset_names()
    if not values.name:
        abouts = {name: load(name).about.strip() for name in names}
        heads = {name: f"{name}  (this one)  " if name == place.policy else f"{name:10}" for name in names}
        width = min(_MAX_WIDTH, place.width or _WIDTH)
        texts = [
            textwrap.fill(about, width, initial_indent=heads[name], subsequent_indent=" " * 10)
            for name, about in abouts.items()
        ]
        return OperationResult(
            "\n".join(texts), value=[{"name": name, "about": about} for name, about in abouts.items()]
        )
    if values.name not in names:
        raise BadPolicy(f"No preset is called {quote_value(values.name)}.", suggest_name(values.name, names))
    text = resources.files("tidegate.presets").joinpath(f"{values.name}.yaml").read_text("utf-8")
    return OperationResult(text.rstrip("\n"), value=text)


POLICIES: Final = Operation(
    "policies",
    "list the shipped policies, or print one",
    "List the shipped policies and when to choose which, or print one, for example to start your own policy file.",
    ("", "--json", "default > my.yaml"),
    _policies,
    (
        Argument("name", "NAME", "print the file of this preset", repeat="?"),
        Argument("--json", help='a list of {"name", "about"}', default=False),
    ),
    scope="program",
)
OPERATIONS: Final = (POLICIES,)
