"""How the plugin behaves in somebody else's repository."""

from __future__ import annotations

import pytest

HEAVY = ("cffi", "msgpack", "msgspec", "zmq")

USES_EVERYTHING = """
import engine
import pytest

@pytest.mark.parametrize("run", range(8))
def test_live(loadwire_publisher, make_loadwire_subscriber, loadwire_clock, run):
    router = make_loadwire_subscriber(loadwire_publisher)
    loadwire_publisher.publish(engine.reading())
    assert router.receive() == (0, engine.reading())

@pytest.mark.parametrize("run", range(8))
def test_capture(loadwire_capture, run):
    capture = loadwire_capture("engine.open_socket", mode="live")
    publisher = engine.Publisher()
    publisher.publish(engine.reading())
    assert capture.receive() == [(0, engine.reading())]
    publisher.close()
"""


def test_nothing_heavy_is_imported_by_a_run_that_does_not_use_it(
    pytester: pytest.Pytester,
) -> None:
    """A run without a loadwire fixture imports none of zmq, msgspec, msgpack and cffi."""
    pytester.makepyfile("def test_x():\n    assert [b'a', b'b', b'c'] == [b'a', b'b', b'd']\n")
    pytester.makeconftest(
        f"""
        import sys

        def pytest_unconfigure():
            print("heavy:", [name for name in {HEAVY} if name in sys.modules])
            print("ours:", sorted(name for name in sys.modules if "loadwire" in name))
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["heavy: []", "ours: ['pytest_loadwire', 'pytest_loadwire.plugin']"]
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("-W", "error"),
        ("--strict-markers", "--strict-config"),
        ("--import-mode=importlib",),
        ("-p", "xdist", "-n", "2"),
        ("-p", "no:xdist"),
        ("--assert=plain",),
        ("-p", "no:terminal"),
    ],
    ids=" ".join,
)
def test_it_works_with(repo: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    """The fixtures work however the run is set up."""
    if "-n" in arguments:
        pytest.importorskip("xdist")
    repo.makepyfile(USES_EVERYTHING)
    repo.makeini("[pytest]\npythonpath = .\nloadwire_timeout = 20\n")
    result = repo.runpytest_subprocess(*arguments)
    assert result.ret == 0
    if "no:terminal" not in arguments:
        result.assert_outcomes(passed=16)


def test_it_can_be_switched_off(repo: pytest.Pytester) -> None:
    """With `-p no:loadwire` there is no option, no fixture and no header."""
    repo.makepyfile(USES_EVERYTHING)
    result = repo.runpytest_subprocess("-p", "no:loadwire")
    result.assert_outcomes(errors=16)
    result.stdout.fnmatch_lines(["*fixture 'loadwire_publisher' not found*"])
    result.stdout.no_fnmatch_line("loadwire: *")
    result = repo.runpytest_subprocess("-p", "no:loadwire", "--loadwire-socket=live")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_everything_is_listed(pytester: pytest.Pytester) -> None:
    """Options, ini keys, the marker and the fixtures are listed with their help."""
    listed = pytester.runpytest("--help").stdout.str()
    for name in ("socket", "timeout", "native"):
        assert f"--loadwire-{name}" in listed
        assert f"loadwire_{name}" in listed
    pytester.runpytest("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.loadwire_leaves_open(reason): *"]
    )
    result = pytester.runpytest("--fixtures")
    for fixture in (
        "loadwire_publisher",
        "make_loadwire_publisher",
        "make_loadwire_subscriber",
        "loadwire_capture",
        "loadwire_clock",
        "loadwire_golden",
        "loadwire_native",
    ):
        result.stdout.fnmatch_lines([f"{fixture} -- *"])
