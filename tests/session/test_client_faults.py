"""A request whose history breaks a rule of the provider is edited all the same: its faults are the client's own."""

import json
from typing import Any

import pytest

from tidegate import Session
from tidegate.session.following import FollowingSession
from tidegate.session.managed_request import read_client_request, write_request
from tidegate.wire.splicing.units import HostUnit

WINDOW, FAULTY = 4_000, 18


def make_request(given_ids: bool) -> bytes:
    """A history of Gemini's in which the name of one call is none that it accepts."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Make all the steps."}]}]
    for step in range(20):
        call: dict[str, Any] = {"name": "a step!" if step == FAULTY else "step"}
        call |= {"id": f"s{step}"} if given_ids else {}
        response = call | {"response": {"output": f"{step} is done.\n" * 120}}
        contents.append({"role": "model", "parts": [{"functionCall": call | {"args": {"n": step}}}]})
        contents.append({"role": "user", "parts": [{"functionResponse": response}]})
    return json.dumps({"contents": contents}).encode()


@pytest.mark.parametrize("given_ids", [True, False])
def test_a_fault_of_the_client_is_known_at_another_place(given_ids: bool) -> None:
    client = read_client_request("gemini", make_request(given_ids), "gemini-2.5-pro")
    assert client is not None
    following: FollowingSession[HostUnit] = FollowingSession(Session("gemini-2.5-pro", window=WINDOW, wire="gemini"))
    followed = following.prepare(client.items, fixed_part=client.fixed_part)
    text = write_request(client, followed)
    assert len(text) < len(client.text) / 2
    names = [
        part.get("functionCall", {}).get("name") for each in json.loads(text)["contents"] for part in each["parts"]
    ]
    assert "a step!" in names
    assert len(names) < 40
