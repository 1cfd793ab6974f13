"""Pictures that a provider would refuse the whole request for: a word stands for them, whoever put them in."""

import base64
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tidegate.core.messages import Call, Image, Message, Part, Result, Text, user_message
from tidegate.session.session import Session
from tidegate.wire.rendering.image_limits import IMAGE_PLACEHOLDER
from tidegate.wire.request import RequestRenderer


def png(width: int, height: int = 1, weight: int = 0) -> Image:
    head = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return Image("image/png", base64.b64encode(head + b"\0" * (9 + weight * 3 // 4)).decode())


SMALL, WIDE, HUGE, HEAVY = png(10), png(2001), png(1, 8001), png(10, weight=5_300_000)
OTHER = Image("image/bmp", SMALL.data)
LINK = Image(url="https://example.com/a.png")


def view_of(*messages: Message, epoch: int = 0) -> SimpleNamespace:
    items = [SimpleNamespace(message=message, signed=True, birth="") for message in messages]
    return SimpleNamespace(items=items, prefix_seq=epoch, system="", tools=(), rejected_seq=0)


def shown(rendering: RequestRenderer) -> list[str]:
    """What stands in the request, picture by picture: base64, a link, or the word."""
    found = []
    for message in rendering.messages:
        content = message["content"]
        assert isinstance(content, list)
        for block in content:
            inner = block["content"] if block["type"] == "tool_result" else [block]
            for each in inner if isinstance(inner, list) else []:
                if each["type"] == "image":
                    found.append(each["source"].get("data") or each["source"]["url"])
                elif each.get("text") == IMAGE_PLACEHOLDER:
                    found.append(IMAGE_PLACEHOLDER)
    return found


def rendered(*messages: Message) -> RequestRenderer:
    rendering = RequestRenderer("anthropic", "claude-x")
    rendering.update(view_of(*messages))
    assert rendering.faults() == []
    return rendering


@pytest.mark.parametrize("image", [HUGE, HEAVY, OTHER], ids=["huge", "heavy", "other"])
def test_one_that_is_never_taken(image: Image) -> None:
    said = Message("user", (image, Text("What is this?"), SMALL))
    assert shown(rendered(said)) == [IMAGE_PLACEHOLDER, SMALL.data]
    answered = [
        Message("assistant", (Call("c1", "look", "{}"),)),
        Message("tool", (Result("c1", (Text("two"), image, SMALL)),)),
    ]
    assert shown(rendered(user_message("Look."), *answered)) == [IMAGE_PLACEHOLDER, SMALL.data]


def test_the_oldest_wide_ones_give_way_and_some_at_a_time() -> None:
    """The same object may stand there twenty times: each place counts. A link's size is not known, but it counts."""
    messages = [Message("user", (LINK, *[WIDE] * 10, SMALL)), *(Message("user", (WIDE,)) for _ in range(8))]
    rendering = rendered(*messages)
    assert IMAGE_PLACEHOLDER not in shown(rendering)
    expected = [LINK.url, *[IMAGE_PLACEHOLDER] * 5, *[WIDE.data] * 5, SMALL.data, *[WIDE.data] * 8]
    for more in range(1, 6):
        messages.append(Message("user", (WIDE,)))
        rendering.update(view_of(*messages))
        assert rendering.faults() == []
        assert shown(rendering) == expected + [WIDE.data] * more
    messages.append(Message("user", (WIDE,)))
    rendering.update(view_of(*messages))
    assert rendering.faults() == []
    assert shown(rendering).count(IMAGE_PLACEHOLDER) == 10
    assert shown(rendered(*messages)) == shown(rendering)


def test_what_was_sent_before_stays_as_it_was_between_two_strides() -> None:
    said = [message for _ in range(21) for message in (Message("user", (WIDE,)), Message("assistant", (Text("Yes."),)))]
    rendering = rendered(*said)
    before = rendering.messages
    for _ in range(4):
        said += [Message("user", (WIDE,)), Message("assistant", (Text("Yes."),))]
        rendering.update(view_of(*said))
        assert rendering.shared >= len(before) - 1
        assert rendering.messages[: len(before) - 1] == before[:-1]
        before = rendering.messages


def test_more_than_a_request_may_hold() -> None:
    rendering = rendered(*(Message("user", (SMALL,)) for _ in range(103)))
    assert [shown(rendering).count(each) for each in (IMAGE_PLACEHOLDER, SMALL.data)] == [5, 98]
    heavy = png(10, weight=5_000_000)
    assert shown(rendered(*(Message("user", (heavy,)) for _ in range(7)))).count(IMAGE_PLACEHOLDER) == 3


def test_other_dialects_have_no_such_bounds() -> None:
    rendering = RequestRenderer("openai_chat", "gpt-4o")
    rendering.update(view_of(Message("user", (WIDE,) * 30)))
    assert rendering.to_bytes().count(WIDE.data.encode()) == 30


def test_an_edit_lays_out_anew() -> None:
    said = [Message("user", (WIDE,)) for _ in range(22)]
    rendering = rendered(*said)
    assert shown(rendering).count(IMAGE_PLACEHOLDER) == 5
    rendering.update(view_of(*said[4:], epoch=1))
    assert shown(rendering) == [WIDE.data] * 18


def test_a_session_of_a_library_goes_on() -> None:
    session = Session("claude-sonnet-4", wire="anthropic", window=400_000)
    for _ in range(25):
        session.add(Message("user", (WIDE, OTHER)))
        session.render_request()
    assert session.render_request().to_bytes().count(WIDE.data.encode()) == 20


parts = st.sampled_from([SMALL, WIDE, HUGE, OTHER, LINK, Text("so")])


@settings(max_examples=scaled(40))
@given(st.lists(st.lists(parts, min_size=1, max_size=40), min_size=1, max_size=5))
def test_whatever_comes_is_taken(said: list[list[Part]]) -> None:
    rendering = RequestRenderer("anthropic", "claude-x")
    messages: list[Message] = []
    for each in said:
        messages.append(Message("user", tuple(each)))
        rendering.update(view_of(*messages))
        assert rendering.faults() == []
    whole = RequestRenderer("anthropic", "claude-x")
    whole.update(view_of(*messages))
    assert whole.to_bytes() == rendering.to_bytes()
