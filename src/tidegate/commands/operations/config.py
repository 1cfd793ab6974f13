"""`config`: the settings of an agent and their sources, changing one, and taking over those of another agent."""

from argparse import Namespace
from typing import TYPE_CHECKING, Final

from tidegate.commands.operations.operation import Argument, Operation, OperationResult, SessionPlace
from tidegate.core.errors import BadInput

if TYPE_CHECKING:  # loaded when it runs
    from tidegate.agent.config.launch import LaunchOptions

_ABOUT: Final = """\
Show every setting of an agent and its source: a line of a file, a variable or the default. With a NAME, only those with
it in their name; with a NAME and a VALUE, change that setting in its file.

`import FILE` writes a tidegate.yaml for this folder from the configuration of CowAgent, PicoClaw, Digitorn, jutul-agent
or ai, and prints what became of each key. API keys are not copied, and no file is overwritten."""


def _config(place: SessionPlace, values: Namespace) -> OperationResult:
    name, value = values.words[0] if values.words else "", " ".join(values.words[1:])
    if name == "import":
        return _import_file(value)
    if values.trust:
        return _trust(place.launch_options())
    if value:
        place.require_idle()
        return _change(place.launch_options(), name, value)
    return _show(place, name)


def _show(place: SessionPlace, name: str) -> OperationResult:
    from tidegate.agent.config.effective_settings import list_effective_settings
    from tidegate.agent.config.resolved_config import load_configured_policy
    from tidegate.core.config.values import quote_value, suggest_name
    from tidegate.core.text.table import indent_text
    from tidegate.core.text.terminal_text import clean_line

    options = place.launch_options()
    config = options.load_config().config
    settings = list_effective_settings(config, options.environment)
    matches = [each for each in settings if name in each.name]
    if not matches:
        hint = suggest_name(name, [each.name for each in settings])
        return OperationResult(f"No setting has {quote_value(name)} in its name. {hint}", False, [])
    column = max(len(each.name) for each in matches) + 2
    texts = ["  (".join(map(clean_line, str(each).split("  (", 1))) for each in matches]
    lines = [
        indent_text(clean_line(each.name).ljust(column), text, place.width)
        for each, text in zip(matches, texts, strict=True)
    ]
    if place.is_chat and not name:  # settings of the policy that no file gives can be set by their names, too
        policy = load_configured_policy(config)
        lines.append(f"settings of the policy {policy.name}:")
        lines += [f"  {key}  {value}" for key, value in policy.settings.items()]
    return OperationResult("\n".join(lines), value=[each._asdict() for each in matches])


def _change(options: "LaunchOptions", name: str, value: str) -> OperationResult:
    from tidegate.agent.config.editor import change_setting

    change = change_setting(options, name, value)
    also = f", with policy.name {change.written_policy}" if change.written_policy else ""
    return OperationResult(f"{change.name} is {change.value} from now on, in {change.file}{also}.", value=change)


def _trust(options: "LaunchOptions") -> OperationResult:
    from tidegate.agent.config.trust import trust_project_file

    if trust_project_file(options.files):
        return OperationResult("This folder's tidegate.yaml is trusted as it is now.")
    return OperationResult("There is no tidegate.yaml here.", False)


def _import_file(file: str) -> OperationResult:
    """Write the tidegate.yaml of this folder and say what became of each key of the file."""
    from pathlib import Path

    from tidegate.agent.config.config_import import import_config
    from tidegate.core.text.terminal_text import clean_line

    if not file:
        raise BadInput("No file is named.", "Write `tidegate config import FILE`.")
    result = import_config(Path(file).expanduser(), Path.cwd())
    lines = [f"tidegate.yaml was written from {clean_line(file)}, a configuration of {result.system}."]
    for entry in result.taken:
        lines.append("  " + clean_line(f"{'.'.join(entry.key)} -> {'.'.join(entry.setting)}: {entry.value}"))
    if result.unused:
        lines.append("Not taken over:")
        lines += ["  " + clean_line(f"{key} ({reason})") for key, reason in result.unused]
    if result.variables:
        lines.append(f"Set these variables to your keys: {', '.join(result.variables)}.")
    if result.risks:
        lines.append(f"The file sets {', '.join(result.risks)}: read it, then run `tidegate config --trust`.")
    return OperationResult("\n".join(lines))


CONFIG: Final = Operation(
    "config",
    "show the settings in effect, or change one",
    _ABOUT,
    (
        "",
        "spend",
        "execution.max_steps 20",
        "--agent reviewer",
        "--trust",
        "--json",
        "import ~/CowAgent/config.json",
    ),
    _config,
    (
        Argument("words", "NAME [VALUE]", "a part of a name, a name and its new value, or import FILE", repeat="*"),
        Argument("--trust", help="trust this folder's tidegate.yaml as it is now", default=False),
        Argument("--json", help='a list of {"name", "value", "source", "note"}', default=False),
    ),
    scope="agent",
)
OPERATIONS: Final = (CONFIG,)
