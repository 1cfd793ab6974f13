"""The model that a stored session continues with: its own, unless the user names another one."""

from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.config.provider_target import EMBEDDED_PROVIDER, guess_provider
from tidegate.agent.config.resolved_config import resolve_brain_target
from tidegate.agent.config.settings import BrainSettings
from tidegate.agent.provider_connection import check_key
from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.session_use import find_session_use


def format_brain(brain: BrainSettings) -> str:
    """Return PROVIDER/MODEL; "" if neither is set."""
    return f"{brain.provider or EMBEDDED_PROVIDER}/{brain.model}" if brain.provider or brain.model else ""


def use_session_model(options: LaunchOptions, data: DataFolder) -> LaunchOptions:
    """Return the options with the model that the session was last used with, and a notice if the files name another.

    BadInput if that model cannot be used. A session that no chat or client of this machine used, such as an import,
    does not choose the model; a notice names the one that it has in its log.
    """
    use = find_session_use(data, options.session_name)
    if use.model == "" or not data.store.head(options.session_name):
        return options
    brain = options.load_config().config.agent.brain
    if not use.folder:
        return options._replace(notice=options.notice or _describe_other_model(options, data, brain))
    model = use.model
    if model is None:
        logged = data.open_conversation(options.session_name).model
        provider = guess_provider(logged)
        if not provider or logged == brain.model:
            return options
        model = f"{provider}/{logged}"
    if model == format_brain(brain):
        return options
    now = format_brain(brain)
    notice = f"This session continues with {clean_line(model)}, the model it was last used with."
    if now:
        now = clean_line(now)
        notice += f" The configuration names {now}: /model {now} or --model {now} switches."
    found = options._replace(model=model, notice=notice)
    _check_model(found)
    return found


def _describe_other_model(options: LaunchOptions, data: DataFolder, brain: BrainSettings) -> str:
    logged = data.open_conversation(options.session_name).model
    provider = guess_provider(logged)
    if not provider or logged == brain.model or options.model:
        return ""
    now, name = clean_line(format_brain(brain)) or "the small local model", clean_line(logged)
    return (
        f"The log of this session names the model {name}; it continues with {now}."
        f" To use that of the log: --model {provider}/{name}"
    )


def _check_model(options: LaunchOptions) -> None:
    try:
        check_key(resolve_brain_target(options.load_config().config, options.environment))
    except BadInput as problem:
        raise BadInput(
            f"Session {options.session_name} was last used with {options.model}. {problem.args[0]}",
            f"{problem.remedy} Or continue with another model: --session {options.session_name} --model PROVIDER/MODEL",
        ) from None
