"""The page as text: what is on it, that everything is escaped, and how large it gets."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loadwire.report import merge, page
from pytest_loadwire.vectors import load

Make = Callable[..., Any]
VOID = {"meta", "link", "br", "wbr"}


class Structure(HTMLParser):
    """Fails where a tag is not closed, and collects what matters."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.feed(text)
        self.close()
        assert [] == self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on")]
        self.ids += [given["id"] or ""] if "id" in given else []
        self.hrefs += [given["href"] or ""] if "href" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()


def flat(text: str) -> str:
    """What a page says, without its marks."""
    return html.unescape(re.sub(r"<[^>]*>", "", text.replace("<wbr>", "")))


def test_the_structure(make_case: Make, make_report: Make):
    """Tags are closed, ids are unique, links stay on the page and lead somewhere."""
    report = merge.merge(
        [
            ("a", make_report(make_case(), make_case("-", "x", hazard=None), name="a")),
            ("b", make_report(make_case(outcome="declared"), name="b", side="both")),
        ]
    )

    seen = Structure(page.render(report))

    assert len(seen.ids) == len(set(seen.ids))
    inside = {f"#{name}" for name in seen.ids}
    assert {"data:,"} == set(seen.hrefs) - inside
    assert not {"script", "img", "iframe", "form", "object"} & set(seen.tags)
    assert {"header", "nav", "main", "footer", "h1"} <= set(seen.tags)


def test_the_worst_comes_first(make_case: Make, make_report: Make):
    """The failures stand by hazard, attracts-all first, each with what it means for traffic."""
    hazards = ["none", "crash", "stale", "divides-by-zero", "starves", "attracts-all"]
    report = make_report(*(make_case(case=hazard, hazard=hazard) for hazard in hazards))

    text = page.render(report)

    found = re.findall(r'<h3 class="hazard"><strong>([^<]+)</strong>', text)
    assert hazards[::-1] == found
    assert "the worker reads as idle and draws all traffic" in text
    assert text.index('id="failures"') < text.index('id="matrix"')


def test_bytes_stand_side_by_side(make_case: Make, make_report: Make):
    """An engine's bytes stand beside those that they should be, and each difference is marked."""
    vector = load().payload("rev2-golden-a")
    wrong = bytes.fromhex(vector.hex.replace("11cc82", "cc8211"))
    about = {"frames": [wrong.hex()], "message": False, "against": vector.hex}
    text = page.render(make_report(make_case(bytes=about), side="engine"))

    blocks = [
        html.unescape(found) for found in re.findall(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)
    ]
    expected = next(found for found in blocks if ">  10  11" in found)
    got = next(found for found in blocks if ">  10  cc82" in found)
    assert 11 + 1 == len(expected.splitlines()) == len(got.splitlines())
    assert 2 == expected.count("> ") == got.count("> ")
    assert got.splitlines()[2].endswith("  130")


def test_a_message_frame_by_frame(make_case: Make, make_report: Make):
    """A message shows its frames, also those that should not be there."""
    frames = [b"load", bytes(8), bytes.fromhex("91a84c6f616453746174"), b"more"]
    about = {"frames": [frame.hex() for frame in frames], "message": True, "against": None}

    text = flat(page.render(make_report(make_case(bytes=about))))

    for line in ("frame 0 (topic): b'load'", "frame 2 (payload): 10 bytes", "frame 3 (unexpected)"):
        assert line in text


@pytest.mark.parametrize("message", [False, True])
def test_bytes_of_nothing(make_case: Make, make_report: Make, message: bool):
    """No frames at all, which the schema allows, are no bytes to show."""
    about = {"frames": [], "message": message, "against": None}
    assert "bytes given" not in page.render(make_report(make_case(bytes=about)))


def test_a_rule_of_a_newer_kit(make_case: Make, make_report: Make):
    """A rule that this kit does not know, which the schema allows, is shown behind the others."""
    text = page.render(make_report(make_case("W99"), make_case("C7")))
    assert text.index("W99") > text.index("C7")


def test_what_is_declared(make_report: Make):
    """Policies and deviations stand with their implementation."""
    deviation = {"rule": "W8", "deed": "refused", "reason": "not yet", "cases": ["tail-*"]}

    text = flat(page.render(make_report(deviations=[deviation])))

    assert "NilTail: reject" in text
    assert "deviates from W8, refused, in tail-*: not yet" in text


def test_problems_and_what_was_not_run(make_report: Make):
    """What went wrong beside the cases, and what was not run, stands on top."""
    left = [{"what": "test_x.py::TestX: 3 tests", "why": "stopping after 1 failures"}]
    report = make_report(problems=["test_y.py could not be collected"], not_run=left)

    text = flat(page.render(report))

    assert "incomplete" in text
    assert "test_y.py could not be collected" in text
    assert "test_x.py::TestX: 3 tests: stopping after 1 failures" in text
    assert text.index("TestX") < text.index("None that is not declared")


def test_mixed_vectors_are_said(make_report: Make):
    """A page of runs with different vectors says so."""
    reports = [("a", make_report()), ("b", make_report(vectors="0" * 64))]

    text = page.render(merge.merge(reports, mixed=True))

    assert "Different vectors." in text
    assert "Different vectors." not in page.render(make_report())


HOSTILE = "<script>alert(1)</script>'\"&amp;{{ 7 * 7 }}\x00\x1b[31m\x85\u202e\ud800\uffff</pre>-->"


def test_everything_is_escaped(make_case: Make, make_report: Make):
    """No text of a run can be more than text, wherever it stands."""
    case = make_case(
        case=HOSTILE, text=HOSTILE + "\n" + HOSTILE, why=HOSTILE, notes=[HOSTILE], test=HOSTILE
    )
    case["finding"].update(rule=HOSTILE, deed=HOSTILE, expected=HOSTILE, got=HOSTILE)
    deviation = {"rule": HOSTILE, "deed": HOSTILE, "reason": HOSTILE, "cases": [HOSTILE]}
    report: Any = make_report(
        case,
        name=HOSTILE,
        passed={"W1": [HOSTILE]},
        deviations=[deviation],
        command=HOSTILE,
        versions={HOSTILE: HOSTILE},
        problems=[HOSTILE, HOSTILE + "\n"],
        not_run=[{"what": HOSTILE, "why": HOSTILE}],
    )
    (part,) = report["runs"][0]["implementations"][0]["parts"]
    part.update(name=HOSTILE, contract=HOSTILE, policies={HOSTILE: HOSTILE})

    text = page.render(report)

    seen = Structure(text)
    assert "script" not in seen.tags
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff\uffff]", text)
    assert text.encode("utf-8").decode("utf-8") == text
    assert flat(text).count("<script>alert(1)</script>") > 30
    assert "\\u0000\\u001b[31m\\u0085\\u202e\\ud800\\uffff" in text
    assert "{{ 7 * 7 }}" in text


@settings(max_examples=50)
@given(text=st.text(), raw=st.binary(max_size=80))
def test_any_text_and_bytes(make_case: Make, make_report: Make, text: str, raw: bytes):
    """Whatever a run holds, there is a page."""
    about = {"frames": [raw.hex()], "message": False, "against": raw[::-1].hex()}
    case = make_case(case=text, text=text, bytes=about)

    Structure(page.render(make_report(case, name=text)))


@pytest.mark.parametrize("wrong", [0, 500, 10_000])
def test_the_size_is_bounded(make_case: Make, make_report: Make, wrong: int):
    """Ten thousand cases stay below 5 MB, however many of them fail, with the longest texts."""
    rules = [f"W{number}" for number in range(1, 11)]
    frames = ["dc07d0" + "93010203" * 500]
    cases = [
        make_case(
            rules[number % 10],
            f"a-case-with-a-rather-long-name-{number}",
            text="x" * 2000,
            bytes={"frames": frames, "message": False, "against": frames[0]},
        )
        for number in range(wrong)
    ]
    names = [f"a-case-with-a-rather-long-name-{number}" for number in range(wrong, 10_000)]
    passed = {rule: names[number::10] for number, rule in enumerate(rules)}

    text = page.render(make_report(*cases, passed=passed))

    assert len(text.encode()) < 5_000_000
    for number in (0, 4321, 9999):
        assert f"a-case-with-a-rather-long-name-{number}" in text.replace("<wbr>", "")


def test_no_implementation(make_report: Make):
    """A report of a run without a contract test has a page."""
    report = make_report()
    report["runs"][0]["implementations"] = []

    assert "0 implementations in 1 run" in flat(page.render(report))
    assert "0 implementations in 0 runs" in flat(page.render({**report, "runs": []}))
