"""Signals that end a command."""

from __future__ import annotations

import os
import signal

import pytest

from pytest_loadwire.interrupt import Interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sets_it(number: signal.Signals) -> None:
    """A signal is noted and raises nothing; afterwards the handler from before is back."""
    before = signal.getsignal(number)
    with Interrupt() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(10)
        assert stop.is_set()
    assert before == signal.getsignal(number)
