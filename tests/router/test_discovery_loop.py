"""Asking workers at an interval, some at a time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from pytest_loadwire.deadline import Deadline
from pytest_loadwire.router.discovery_loop import DiscoveryLoop


class Worker:
    """Answers questions, and lets a test wait for their number."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.under_way: Counter[str] = Counter()
        self.most = 0
        self.changed = threading.Condition()
        self.gate: threading.Event | None = None
        self.answers = True

    def ask(self, url: str) -> bool:
        with self.changed:
            self.under_way[url] += 1
            assert self.under_way[url] == 1, f"{url} is asked twice at a time"
            self.most = max(self.most, self.under_way.total())
            self.asked[url] += 1
            self.changed.notify_all()
        if self.gate is not None:
            assert self.gate.wait(5)
        with self.changed:
            self.under_way[url] -= 1
            self.changed.notify_all()
        return self.answers

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, 5)


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def make_loop(worker: Worker) -> Iterator[Callable[..., DiscoveryLoop]]:
    made = []

    def make(interval: float = 3600.0, threads: int = 2) -> DiscoveryLoop:
        made.append(DiscoveryLoop(worker.ask, interval=interval, threads=threads))
        return made[-1]

    yield make
    if worker.gate is not None:
        worker.gate.set()
    for loop in made:
        assert loop.close(Deadline(5))


MakeLoop = Callable[..., DiscoveryLoop]


def test_each_is_asked_at_once_and_again(worker: Worker, make_loop: MakeLoop) -> None:
    """Workers are asked when they are added, and then at the interval."""
    loop = make_loop(interval=0.01)
    for url in "abc":
        loop.add(url)
    worker.wait(lambda: all(worker.asked[url] >= 3 for url in "abc"))


def test_only_so_many_at_a_time(worker: Worker, make_loop: MakeLoop) -> None:
    """No more questions are under way than there are threads."""
    worker.gate = threading.Event()
    loop = make_loop(threads=2)
    for url in "abcde":
        loop.add(url)
    worker.wait(lambda: worker.under_way.total() == 2)
    worker.gate.set()
    worker.wait(lambda: len(worker.asked) == 5)
    assert worker.most == 2


def test_in_a_hurry(worker: Worker, make_loop: MakeLoop) -> None:
    """Everybody is asked anew, also who is being asked right now, and never twice at a time."""
    worker.gate = threading.Event()
    loop = make_loop(threads=4)
    loop.add("a")
    loop.add("b")
    worker.wait(lambda: worker.under_way.total() == 2)
    loop.hurry()
    loop.hurry()
    worker.gate.set()
    worker.wait(lambda: worker.asked == {"a": 2, "b": 2} and not worker.under_way.total())


def test_removed_while_asked(worker: Worker, make_loop: MakeLoop) -> None:
    """Who is removed is asked no more; who is added again meanwhile is."""
    worker.gate = threading.Event()
    loop = make_loop(interval=0.01, threads=2)
    loop.add("a")
    loop.add("b")
    worker.wait(lambda: worker.under_way.total() == 2)
    loop.remove("a")
    loop.remove("b")
    loop.remove("nobody")
    loop.add("b")
    worker.gate.set()
    worker.wait(lambda: worker.asked["b"] >= 3)
    assert worker.asked["a"] == 1


def test_no_answer_is_asked_for_sooner(
    worker: Worker, make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who did not answer is asked again before the interval is over."""
    monkeypatch.setattr("pytest_loadwire.router.discovery_loop.RETRY_S", 0.01)
    worker.answers = False
    make_loop(interval=3600.0).add("a")
    worker.wait(lambda: worker.asked["a"] >= 3)


def test_close_waits_for_a_question(worker: Worker, make_loop: MakeLoop) -> None:
    """Closing says whether every question ended in time."""
    worker.gate = threading.Event()
    loop = make_loop()
    loop.add("a")
    worker.wait(lambda: worker.under_way["a"] == 1)
    assert loop.close(Deadline(0)) is False
    worker.gate.set()
    assert loop.close(Deadline(5)) is True
