"""Real clients continue each other's session, and return: `make test-clients` installs them; elsewhere it is skipped.

tests/gateway/test_shared_sessions.py does the same for all pairs with clients that only have their form.
"""

import asyncio
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.programs import CONTINUE, FAMILY, RUNS, TASK, needs
from tests.clients.scripted_provider import ScriptedProvider, SeenRequest
from tests.fake.server import strings
from tests.gateway.serving import RecordingGateway, run_gateway
from tidegate.cli.wrapped_clients import CLIENTS
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.settings import ContinuedSession, Upstream

NAMES = ("claude", "codex", "gemini", "opencode", "pi", "qwen")
CYCLE = [(one, NAMES[place - 1]) for place, one in enumerate(NAMES)]
OTHERS = [(one, other) for one in NAMES for other in NAMES if one != other and (one, other) not in CYCLE]
SESSION = "pump"
TYPED = "Never push to main."
FACT = "the teapot on shelf 9f3a prefers oolong"
WINDOW = 60_000
STEPS = 3


class Played(NamedTuple):
    """The requests of one run of a client, what it recalled, and what the gateway said."""

    seen: list[SeenRequest]
    recalled: dict[str, str]
    notices: list[str]

    @property
    def records(self) -> list[str]:
        """The newest record of other clients' work in each request of the conversation; empty if there is none."""
        found = [
            [text for text in strings(json.loads(seen.raw)) if "\n<earlier-work-" in text and text.startswith("[")]
            for seen in self.seen
            if not seen.is_side
        ]
        return [texts[-1] if texts else "" for texts in found]


def play(client: str, folder: Path, until: int, task: str, *options: str, recall: str = "") -> Played:
    """Run a client in the session until a step of the script is done, as `tidegate wrap CLIENT --session` does."""
    home = folder / client
    home.mkdir(exist_ok=True)
    with DataFolder(folder / "data") as data:
        source = data.store.head(SESSION)
    continued = ContinuedSession(SESSION, client, CLIENTS[client].title, source)

    def make_command(step: int) -> str | None:
        return f"echo result {step} of {client}; echo {FACT if step == 1 else ''}" if step < until else None

    async def run() -> Played:
        recall_at = (until - STEPS,) if recall else ()
        async with ScriptedProvider(make_command, window=WINDOW, recall_at=recall_at, recalled_word=recall) as provider:
            upstream = Upstream(FAMILY[client], FAMILY[client], provider.url)  # type: ignore[arg-type]
            async with run_gateway(
                folder / "data", upstream, make=RecordingGateway, recall=True, window=WINDOW, continued=continued
            ) as running:
                named = running._replace(url=f"{running.url}/s/{SESSION}")
                output = await RUNS[client](named, home, *options, task=task)
                notices = [*running.gateway.notices]
                assert "defect" not in "".join(running.lines)
                assert isinstance(running.gateway, RecordingGateway)
                assert provider.list_new_faults(running.gateway.bodies) == []
        assert "All steps are done." in output
        assert provider.refused == [], "too long"
        return Played(provider.seen, provider.recalled, notices)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("one", "other"), [*CYCLE, *(pytest.param(*pair, marks=pytest.mark.exhaustive) for pair in OTHERS)]
)
def test_a_session_goes_there_and_back(one: str, other: str, tmp_path: Path) -> None:
    needs(one)
    needs(other)
    begun = play(one, tmp_path, STEPS, f"{TASK} {TYPED}")
    assert not any(begun.records)

    gone_on = play(other, tmp_path, 2 * STEPS, "Now do the next steps.", recall="teapot")
    assert len(set(gone_on.records)) == 1, "the same bytes in each request"
    assert TASK in gone_on.records[0]
    assert f"Rules that the user typed:\n- {TYPED}" in gone_on.records[0]
    assert f"of {CLIENTS[one].title}" in gone_on.records[0]
    assert not any(b"earlier-work" in seen.raw for seen in gone_on.seen if seen.is_side)
    assert [text for text in gone_on.recalled.values() if FACT in text], gone_on.recalled
    assert f"the session {SESSION} goes on in {CLIENTS[other].title}" in gone_on.notices

    back = play(one, tmp_path, 2 * STEPS, "And now the rest.", *CONTINUE[one], recall="do the next steps")
    assert len(set(back.records)) == 1
    assert "Now do the next steps." in back.records[0]
    assert f"result {2 * STEPS - 1} of {other}" in back.records[0]
    assert TASK not in back.records[0], "it is not sent twice"
    assert all(TASK in seen.raw.decode() for seen in back.seen if not seen.is_side)
    assert [text for text in back.recalled.values() if "Now do the next steps." in text], back.recalled
