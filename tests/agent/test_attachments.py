"""Pictures: attached where the model takes them, else refused with a word, and never the end of a session."""

import asyncio
import struct
import zlib
from pathlib import Path

import pytest

from tests.agent.test_loop import WIRES, an_agent, run
from tests.agent.test_open import SCRIPTED
from tidegate import BadInput
from tidegate.agent.attachments import MAX_ATTACHMENT_CHARS, attach_images, make_image
from tidegate.agent.config.files import parse_config
from tidegate.agent.loop import Agent, AgentEvent, RequestRefused, RequestSent, TurnEnded
from tidegate.agent.runtime import open_agent
from tidegate.core.messages import Image, Message, Text
from tidegate.models.catalog import accepts_images
from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.models.scripted_provider import ScriptedProvider, ScriptStep

UNREADABLE = '{"error": {"message": "Invalid image: could not process image", "code": "invalid_image"}}'


def png(width: int = 3, height: int = 2, extra: int = 0) -> bytes:
    """A real picture, small or not."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * 3 * width for _ in range(height)), 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(*each) for each in ((b"IHDR", head), (b"IDAT", rows), (b"tEXt", b"x" * extra), (b"IEND", b""))
    )


def test_a_picture_is_looked_at_before_it_is_taken() -> None:
    image = make_image(png(30, 20))
    assert (image.media, image.width, image.height) == ("image/png", 30, 20)
    for data, says in (
        (b"not a picture", "is not a PNG"),
        (png()[:12], "is not a PNG"),
        (png(8001, 1), "8001 x 1 pixels"),
        (png(extra=MAX_ATTACHMENT_CHARS * 3 // 4), "bytes"),
    ):
        with pytest.raises(BadInput, match=says):
            make_image(data)
    with pytest.raises(BadInput, match="21 pictures"):
        attach_images("Look.", [image] * 21)


@pytest.mark.parametrize(
    ("model", "takes"),
    [("gpt-4o", True), ("claude-sonnet-4-5", True), ("gemini-2.5-pro", True), ("deepseek-chat", False), ("mine", None)],
)
def test_the_catalog_knows_who_takes_pictures(model: str, takes: bool | None) -> None:
    assert accepts_images(model) is takes


@pytest.mark.parametrize("wire", WIRES)
def test_pictures_are_sent_in_every_dialect(wire: str) -> None:
    agent = an_agent(["A bee."], wire=wire, window=8000)
    image = make_image(png())
    happened = asyncio.run(_gathered(agent, attach_images("What is this?", [image])))
    assert happened[-1] == TurnEnded("end")
    assert isinstance(agent.provider, ScriptedProvider)
    assert image.data.encode() in agent.provider.requests[0]


async def _gathered(agent: Agent, message: Message) -> list[AgentEvent]:
    return [each async for each in agent.run_turn(message)]


def asked(model: str, more: str = "") -> list[bytes]:
    """The requests of a scripted model by this name that is shown a picture."""
    provider = ScriptedProvider("openai_chat", ["A bee."], model=model)

    async def act() -> None:
        config = parse_config(SCRIPTED + more, {})
        async with open_agent(config, data=None, name="b", workspace=Path("."), provider=provider) as agent:
            async for _ in agent.run_turn("What is this?", [make_image(png())]):
                pass

    asyncio.run(act())
    return provider.requests


def test_a_model_that_takes_none_is_not_sent_one() -> None:
    with pytest.raises(BadInput, match=r"deepseek-chat does not accept pictures.*models\.deepseek-chat\.images"):
        asked("deepseek-chat")
    assert b"image_url" in asked("deepseek-chat", "models: {deepseek-chat: {images: true}}\n")[0]
    assert b"image_url" in asked("gpt-4o")[0]
    assert b"image_url" in asked("nobody-knows-it")[0]
    with pytest.raises(BadInput, match="gpt-4o does not accept pictures"):
        asked("gpt-4o", "models: {gpt-4o: {images: false}}\n")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [400, 413])
def test_a_picture_that_is_refused_leaves_the_view_and_not_the_log(wire: str, status: int) -> None:
    """Else it would be sent, and refused, with every later request."""
    body = UNREADABLE if status == 400 else "Payload Too Large"
    steps: list[ScriptStep] = [classify_response(status, body), "I could not see it.", "Here."]
    agent = an_agent(steps, wire=wire, window=8000)
    image = make_image(png())
    happened = asyncio.run(_gathered(agent, attach_images("What is this?", [image])))
    assert [each.error.kind for each in happened if isinstance(each, RequestRefused)] == [
        "media" if status == 400 else "bytes"
    ]
    assert happened[-1] == TurnEnded("end")
    assert run(agent, "Go on.")[-1] == TurnEnded("end")
    assert isinstance(agent.provider, ScriptedProvider)
    first, *later = agent.provider.requests
    assert image.data.encode() in first
    assert not [request for request in later if image.data.encode() in request]
    assert all(b"What is this?" in request for request in later)
    assert b"image left out" in later[0]
    assert image in agent.session.recall("m3").parts or image in agent.session.recall("m2").parts
    agent.session.history.undo()
    assert image.data.encode() in agent.session.render_request().to_bytes()


def test_without_a_picture_to_leave_out_the_fault_is_raised() -> None:
    agent = an_agent([classify_response(400, UNREADABLE)])
    with pytest.raises(ProviderError, match="not accepted"):
        run(agent)


def test_pictures_that_become_too_many_do_not_end_the_session() -> None:
    """Twenty are taken at any size, the twenty-first makes those over 2000 pixels illegal: the newest are shown."""
    agent = an_agent(["Bees."] * 3, wire="anthropic", window=200_000)
    wide = make_image(png(2001, 1))
    for _ in range(3):
        happened = asyncio.run(_gathered(agent, attach_images("What is this?", [wide] * 10)))
        assert happened[-1] == TurnEnded("end")
    assert isinstance(agent.provider, ScriptedProvider)
    sizes = [request.count(wide.data.encode()) for request in agent.provider.requests]
    assert sizes == [10, 20, 20]


def test_pictures_are_weighed_by_their_pixels() -> None:
    agent = an_agent(["A bee."], window=8000)
    happened = asyncio.run(
        _gathered(agent, attach_images("What is this?", [Image("image/png", "A" * 400_000, width=512, height=512)]))
    )
    (request,) = [each.request for each in happened if isinstance(each, RequestSent)]
    assert 250 < request.tokens < 2000
    assert Text("What is this?") in agent.session.view.items[0].message.parts
