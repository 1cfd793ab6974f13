"""The actions that a slash command leaves to the app: switch the session, the model or the policy, pick one, or quit.

match answer.action:
    case None: ...
    case Quit(): ...
    case PickSession() | PickModel() | AttachOutput() | ChooseTheme() | SetPlanMode(): ...
    case ResumeSession() | SwitchModel() | SwitchPolicy() | ReopenSession() as change:
        open_again(apply_change(options, change))
    case unknown:
        assert_never(unknown)
"""

from typing import assert_never

import msgspec

from tidegate.agent.config.launch import LaunchOptions


class ResumeSession(msgspec.Struct, frozen=True):
    """Continue in the session of this name."""

    name: str


class SwitchModel(msgspec.Struct, frozen=True):
    """Open the session again with this model; "" is the model of the configuration files."""

    model: str = ""


class SwitchPolicy(msgspec.Struct, frozen=True):
    """Open the session again with this policy; "" is the policy of the configuration files."""

    policy: str = ""


class ReopenSession(msgspec.Struct, frozen=True):
    """Open the session again, because a configuration file has changed."""


class PickSession(msgspec.Struct, frozen=True):
    """Let the user pick a session. The text of the answer lists them."""


class PickModel(msgspec.Struct, frozen=True):
    """Let the user pick a model. The text of the answer lists them."""


class AttachOutput(msgspec.Struct, frozen=True):
    """Put the output of the last `!command` into the next message."""


class ChooseTheme(msgspec.Struct, frozen=True):
    """Use this color theme from now on; "" lets the user pick one."""

    name: str = ""


class SetPlanMode(msgspec.Struct, frozen=True):
    """Switch the plan mode, also for agents that are opened later in this chat."""

    on: bool


class Quit(msgspec.Struct, frozen=True):
    """Leave the app."""


LaunchChange = ResumeSession | SwitchModel | SwitchPolicy | ReopenSession
"""Actions after which the app opens an agent again; `apply_change` says how."""
CommandAction = LaunchChange | PickSession | PickModel | AttachOutput | ChooseTheme | SetPlanMode | Quit


def apply_change(options: LaunchOptions, change: LaunchChange) -> LaunchOptions:
    """Return the options to open the agent with after this change."""
    options = options._replace(notice="")
    match change:
        case ResumeSession(name):
            return options._replace(session_name=name, restore=True)
        case SwitchModel(model):
            return options._replace(model=model, restore=False)
        case SwitchPolicy(policy):
            return options._replace(policy=policy, restore=False)
        case ReopenSession():
            return options._replace(restore=False)
        case unknown:
            assert_never(unknown)
