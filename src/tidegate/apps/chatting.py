"""`tidegate chat`: from the command line to the app, or where there is no terminal for one, to plain lines."""

import argparse
import os
import time
from pathlib import Path

from tidegate.agent.chosen import policy_of, secret_values
from tidegate.agent.commands_opening import Opening
from tidegate.agent.config_file import files_of
from tidegate.apps.choices import OK
from tidegate.apps.keeping import STORE
from tidegate.apps.place import data_folder
from tidegate.apps.plain_out import ended, has_screen
from tidegate.core.secrets import keys_of
from tidegate.keep.data import DataFolder


def chat_command(options: argparse.Namespace) -> int:
    files = files_of(Path.cwd(), os.environ, asked=options.config)
    opening = Opening(files, os.environ, agent=options.agent, model=options.model, policy=options.policy)
    read = opening.read()
    policy_of(read.config)  # a wrong one is a wrong call: said before anything is opened
    secrets = [*keys_of(os.environ), *secret_values(read.config, os.environ)]
    data = DataFolder(data_folder(options), store=options.store or os.environ.get(STORE, ""), secrets=secrets)
    try:
        name = options.session or (last_used(data) if options.last else "") or new_name(read.config.settings.app.app_id)
        opening = opening._replace(name=name)
        if options.plain or not has_screen():
            from tidegate.apps.plain import plain_chat

            return plain_chat(data, opening, Path.cwd(), secrets=secrets)
        from tidegate.apps.chat.app import ChatApp

        app = ChatApp(data, opening, Path.cwd(), dark=options.theme != "light")
        app.run()
        if app.failure is not None:
            raise app.failure
        print(ended(app.session))
        return app.return_code or OK
    finally:
        data.close()


def new_name(app_id: str) -> str:
    return f"{app_id}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def last_used(data: DataFolder) -> str:
    """Those of subagents do not count: nobody talks with them. One used in the future was used under a wrong clock."""
    found = [info for info in data.store.sessions() if ".task-" not in info.name]
    now = data.clock()
    return next((info.name for info in found if info.used <= now), found[0].name if found else "")
