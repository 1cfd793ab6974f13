"""The model that a stored session continues with: its own, unless the user names another one."""

from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.config.provider_target import EMBEDDED_PROVIDER, guess_provider
from tidegate.agent.config.resolved_config import resolve_model_target
from tidegate.agent.config.settings import AgentModel
from tidegate.agent.provider_connection import check_key
from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.data_folder import DataFolder
from tidegate.datafolder.session_use import find_session_use


def format_agent_model(agent_model: AgentModel) -> str:
    """Return PROVIDER/MODEL; "" if neither is set."""
    return (
        f"{agent_model.provider or EMBEDDED_PROVIDER}/{agent_model.model}"
        if agent_model.provider or agent_model.model
        else ""
    )


def use_session_model(options: LaunchOptions, data: DataFolder) -> LaunchOptions:
    """Return the options with the model that the session was last used with, and a notice if the files name another.

    BadInput if that model cannot be used. A session that no chat or client of this machine used, such as an import,
    does not choose the model; a notice names the one that it has in its log.
    """
    use = find_session_use(data, options.session_name)
    if use.model == "" or not data.store.head(options.session_name):
        return options
    agent_model = options.load_config().config.agent.model
    if not use.folder:
        return options._replace(notice=options.notice or _describe_other_model(options, data, agent_model))
    model = use.model
    if model is None:
        logged = data.open_conversation(options.session_name).model
        provider = guess_provider(logged)
        if not provider or logged == agent_model.model:
            return options
        model = f"{provider}/{logged}"
    if model == format_agent_model(agent_model):
        return options
    now = format_agent_model(agent_model)
    notice = f"This session continues with {clean_line(model)}, the model it was last used with."
    if now:
        now = clean_line(now)
        notice += f" The configuration names {now}: /model {now} or --model {now} switches."
    new_options = options._replace(model=model, notice=notice)
    _check_model(new_options)
    return new_options


def _describe_other_model(options: LaunchOptions, data: DataFolder, agent_model: AgentModel) -> str:
    logged = data.open_conversation(options.session_name).model
    provider = guess_provider(logged)
    if not provider or logged == agent_model.model or options.model:
        return ""
    now, name = clean_line(format_agent_model(agent_model)) or "the small local model", clean_line(logged)
    return (
        f"The log of this session names the model {name}; it continues with {now}."
        f" To use that of the log: --model {provider}/{name}"
    )


def _check_model(options: LaunchOptions) -> None:
    try:
        check_key(resolve_model_target(options.load_config().config, options.environment))
    except BadInput as problem:
        raise BadInput(
            f"Session {options.session_name} was last used with {options.model}. {problem.args[0]}",
            f"{problem.remedy} Or continue with another model: --session {options.session_name} --model PROVIDER/MODEL",
        ) from None
