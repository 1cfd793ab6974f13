"""The threads in which async calls of sessions wait for the store."""

import asyncio
import threading

from tidegate import Session


def test_the_thread_that_was_used_last_is_used_first() -> None:
    sessions = [Session("gpt-4o") for _ in range(8)]
    together = threading.Barrier(8)

    async def run() -> tuple[list[int], list[int]]:
        first = await asyncio.gather(*(session.call_async(together.wait, 120) for session in sessions))
        later = [await session.call_async(threading.get_ident) for session in sessions]
        return first, later

    first, later = asyncio.run(run())
    assert sorted(first) == list(range(8))  # eight threads at once
    assert len(set(later)) == 1


def test_more_calls_than_threads_wait_for_their_turn() -> None:
    sessions, gate, ran = [Session("gpt-4o") for _ in range(40)], threading.Event(), list[int]()

    def work(number: int) -> int:
        assert gate.wait(120)
        ran.append(number)
        return number

    async def run() -> list[int | BaseException]:
        calls = [asyncio.ensure_future(each.call_async(work, place)) for place, each in enumerate(sessions)]
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*calls, return_exceptions=True)

    assert asyncio.run(run()) == list(range(40))
    assert sorted(ran) == list(range(40))


def test_what_a_call_raises_is_raised_in_its_task() -> None:
    async def run() -> str:
        session = Session("gpt-4o")
        try:
            await session.call_async(int, "no number")
        except ValueError:
            return str(await session.call_async(int, "7"))
        return "nothing was raised"

    assert asyncio.run(run()) == "7"
