"""The session that `tidegate wrap --session` continues: what is known of it before the client starts."""

from typing import TYPE_CHECKING

from tidegate.cli.wrapped_clients import WrappedClient

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.gateway.settings import ContinuedSession


def find_continued_session(data: "DataFolder", client: WrappedClient, session: str) -> "ContinuedSession":
    """What the gateway needs to know to let a client continue a session."""
    from tidegate.gateway.routing import clean_id
    from tidegate.gateway.settings import ContinuedSession

    name = clean_id(session)
    source = data.store.head(name)
    return ContinuedSession(name, client.program, client.title, source, (), client.sends_tools)
