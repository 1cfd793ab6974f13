"""A session continues with its own model, and the end of a chat says all that is needed to continue it."""

import json
from pathlib import Path

import pytest

from tests.cli.desk import Desk, ForkedDesk, asked
from tests.fake.server import Fake
from tests.tui.stage import on_stage, played
from tests.tui.test_plain_process import Screen
from tidegate import DataFolder
from tidegate.datafolder.workspaces import note_workspace
from tidegate.models.scripted_provider import ScriptedProvider
from tidegate.store.open import list_url_passwords

OTHER = "agents: [{id: main, model: {provider: openai, model: gpt-4.1}}]\n"
NOTICE = "This session continues with openai/gpt-4o, the model it was last used with."


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return ForkedDesk(tmp_path)


def models_asked(server: Fake) -> list[str]:
    return [body["model"] for body in asked(server)]


def test_a_session_keeps_its_model_until_another_is_named(desk: Desk) -> None:
    async def act(server: Fake) -> None:
        await desk.run("run", "Which port?", "--session", "ports")
        desk.configure(OTHER)
        again = await desk.run("run", "Again?", "--session", "ports")
        assert NOTICE in again.err
        assert "--model openai/gpt-4.1 switches" in again.err
        await desk.run("chat", "--last", stdin="Once more?\n")
        await desk.run("run", "And?", "--session", "ports", "--model", "gpt-4.1")
        assert (await desk.run("chat", "--last", stdin="Now?\n")).err == ""

    server = desk.serve(["8443."] * 5, act)
    assert models_asked(server) == ["gpt-4o", "gpt-4o", "gpt-4o", "gpt-4.1", "gpt-4.1"]


def test_its_tools_stay_without_a_configuration(desk: Desk) -> None:
    async def act(server: Fake) -> None:
        await desk.run("run", "Which port?", "--session", "ports")
        desk.configure("{}\n")
        await desk.run("chat", "--last", stdin="Again?\n")

    server = desk.serve(["8443."] * 2, act)
    first, last = asked(server)
    assert first["tools"] == last["tools"]


def test_the_log_says_the_model_of_a_session_of_an_earlier_version(desk: Desk) -> None:
    """An import is not a use: its log must not choose whose key is spent."""

    async def act(server: Fake) -> None:
        await desk.run("run", "Which port?", "--session", "ports")
        with DataFolder(desk.folder / "data", secrets=[]) as data:
            note_workspace(data, "ports", desk.folder)
        desk.configure(OTHER)
        await desk.run("chat", "--last", stdin="Again?\n")
        await desk.run("export", "ports", "ports.tidegate")
        assert (await desk.run("import", "ports.tidegate", "--as", "copy")).status == 0
        other = await desk.run("run", "Once more?", "--session", "copy")
        assert other.status == 0
        assert "names the model gpt-4o; it continues with openai/gpt-4.1." in other.err
        assert "--model openai/gpt-4o" in other.err

    server = desk.serve(["8443."] * 3, act)
    assert models_asked(server) == ["gpt-4o", "gpt-4o", "gpt-4.1"]


def test_a_model_that_cannot_be_used_is_named(desk: Desk) -> None:
    async def act(server: Fake) -> None:
        await desk.run("run", "Which port?", "--session", "ports")
        del desk.environment["OPENAI_API_KEY"], desk.environment["TIDEGATE_OPENAI_BASE_URL"]
        desk.configure("{}\n")
        for ran in (
            await desk.run("chat", "--last", stdin="Again?\n"),
            await desk.run("run", "Again?", "--session", "ports"),
        ):
            assert (ran.status, ran.out) == (2, "")
            assert "Session ports was last used with openai/gpt-4o. There is no key for openai." in ran.err
            assert "--model PROVIDER/MODEL" in ran.err
            assert "embedded" not in ran.err, "without a provider the session still has its own"

    assert models_asked(desk.serve(["8443."], act)) == ["gpt-4o"]


@pytest.mark.parametrize("answer", ["y", pytest.param("n", marks=pytest.mark.exhaustive)])
def test_on_a_terminal_it_asks(tmp_path: Path, answer: str) -> None:
    desk = Desk(tmp_path)

    async def act(server: Fake) -> None:
        await desk.run("run", "Which port?", "--session", "ports", "--model", "openai/gpt-4o")
        del desk.environment["OPENAI_API_KEY"], desk.environment["TIDEGATE_OPENAI_BASE_URL"]
        desk.configure(
            "agents: [{id: main, model: {provider: local, model: m}}]\nproviders: {local: {base_url: URL}}\n"
        )
        desk.configure((desk.folder / "tidegate.yaml").read_text().replace("URL", server.url))
        screen = Screen(desk, "chat", "--last")
        await screen.sees("There is no key for openai.")
        await screen.sees("Continue with local/m instead? [y/N] ")
        screen.type(f"{answer}\n")
        if answer == "y":
            await screen.sees("model m")
            screen.type("\x04")
        assert await screen.ended() == (0 if answer == "y" else 2)

    desk.serve(["8443."], act)


def test_another_session_of_the_app_comes_with_its_own_model(tmp_path: Path) -> None:
    models = {"openai/gpt-4.1": ScriptedProvider("openai_chat", ["From the other."])}

    async def play() -> None:
        async with on_stage(tmp_path, ["From here."], models=models) as stage:
            data = stage.app.data
            with data.open("other", "gpt-4.1") as session:
                session.add({"role": "user", "content": "Paint the pier."})
            note_workspace(data, "other", tmp_path / "work", "openai/gpt-4.1")
            await stage.say("/resume other")
            await stage.sees("Continuing: Paint the pier.")
            await stage.say("And now?")
            await stage.sees("From the other.")
            await stage.sees("This session continues with openai/gpt-4.1")

    played(play)


def test_the_hint_has_every_option_that_is_needed(desk: Desk) -> None:
    desk.configure("{}\n")
    (desk.folder / "my own.yaml").write_text(OTHER)

    async def act(server: Fake) -> None:
        given = ["--config", "my own.yaml", "--data", "kept", "--policy", "picoclaw"]
        first = await desk.run("chat", "--session", "ports", "--model", "gpt-4o", *given, stdin="Hi.\n")
        command = first.out.splitlines()[-1]
        assert command == ("  tidegate chat --session ports --data kept --config 'my own.yaml' --policy picoclaw")
        again = await desk.run("chat", "--session", "ports", *given, stdin="Again.\n")
        assert again.out.splitlines()[-1] == command

    server = desk.serve(["a", "b"], act)
    assert models_asked(server) == ["gpt-4o", "gpt-4o"]
    assert "Hi." in json.dumps(asked(server)[1]["messages"])


@pytest.mark.parametrize(
    ("url", "passwords"),
    [
        ("postgresql://me@db/x", []),
        ("postgresql://me:pw%41@db/x", ["pw%41", "pwA"]),
        ("postgresql://me@db/x?password=p", ["p", "p"]),
    ],
)
def test_a_store_with_a_password_is_left_out_of_the_hint(url: str, passwords: list[str]) -> None:
    assert list_url_passwords(url) == passwords
