"""tidegate in `bench/savers.py`."""

from __future__ import annotations

from saver_work import TABLE_BYTES, measure_folder, run_saver

from tidegate import DataFolder, Session


class TidegateSaver:
    def __init__(self, folder: str, url: str) -> None:
        self._folder, self._url = folder, url

    def open(self) -> None:
        self._data = DataFolder(self._folder, store=self._url, secrets=[])
        self._sessions: dict[str, Session] = {}

    def close(self) -> None:
        for each in self._sessions.values():
            each.close()
        self._data.close()

    def _open_session(self, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = self._data.open(name, "gpt-4o", window=128_000, live_trace=False)
        return self._sessions[name]

    def take_turn(self, name: str, request: str, answer: str) -> None:
        session = self._open_session(name)
        session.add({"role": "user", "content": request})
        session.prepare()
        session.add({"role": "assistant", "content": answer})

    def search(self, word: str) -> int:
        return len(self._data.open_search().search(word))

    def reopen(self, name: str) -> int:
        session = self._open_session(name)
        session.prepare()
        return len(session.view.items)

    def measure_bytes(self) -> int:
        if not self._url:
            return measure_folder(self._folder)
        import psycopg

        with psycopg.connect(self._url) as link:
            row = link.execute(TABLE_BYTES).fetchone()
        return measure_folder(self._folder) + (row[0] if row else 0)


if __name__ == "__main__":
    run_saver(TidegateSaver)
