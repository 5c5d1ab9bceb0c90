"""--loadwire-timeout and its ini key."""

from __future__ import annotations

import pytest

TEST = """
import pytest

def test_wait(loadwire_publisher, make_loadwire_publisher, make_loadwire_subscriber,
              loadwire_capture):
    router = make_loadwire_subscriber(loadwire_publisher.endpoint)
    loadwire_publisher.wait_for_subscribers(timeout=5)
    for wait in (
        lambda: loadwire_publisher.wait_for_subscribers(2),
        make_loadwire_publisher().wait_for_subscribers,
        router.receive,
        loadwire_capture("engine.open_socket").receive,
    ):
        with pytest.raises(TimeoutError) as caught:
            wait()
        assert " 0.01 s" in str(caught.value)

def test_own(make_loadwire_publisher):
    with pytest.raises(TimeoutError, match="0.02 s"):
        make_loadwire_publisher(timeout=0.02).wait_for_subscribers()
"""


@pytest.mark.parametrize(
    ("ini", "arguments"),
    [
        ("", ["--loadwire-timeout=0.01"]),
        ("loadwire_timeout = 0.01", []),
        ("loadwire_timeout = 60", ["--loadwire-timeout", "0.01"]),
    ],
)
def test_every_wait_of_a_fixture_has_it(
    repo: pytest.Pytester, ini: str, arguments: list[str]
) -> None:
    """Each wait of each fixture gives up after the seconds of the option, unless told otherwise."""
    repo.makeini(f"[pytest]\n{ini}\n")
    repo.makepyfile(TEST)
    result = repo.runpytest(*arguments)
    result.stdout.fnmatch_lines(["loadwire: socket=stub, timeout=0.01 s"])
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf", ""])
def test_a_bad_timeout_is_a_usage_error(pytester: pytest.Pytester, value: str) -> None:
    """What is no positive number of seconds stops the run and says what is expected."""
    result = pytester.runpytest(f"--loadwire-timeout={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: --loadwire-timeout must be a number of seconds above 0, not '{value}'"]
    )
