"""The page in a real browser: without scripts, in both colour schemes, on a phone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import need

from pytest_loadwire.report import merge, page
from pytest_loadwire.vectors import load

webdriver = pytest.importorskip("selenium.webdriver")
chrome = pytest.importorskip("selenium.webdriver.chrome.service")

Make = Callable[..., Any]

DESK, PHONE = (1280, 900), (390, 844)
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# Every element with text of its own: its colour against the nearest background that is opaque.
CONTRAST = """
const light = rgb => {
  const [r, g, b] = rgb.map(v => v / 255).map(
    v => v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const parts = text => text.match(/[0-9.]+/g).map(Number);
const behind = element => {
  for (let e = element; e; e = e.parentElement) {
    const colour = parts(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour.slice(0, 3);
  }
  return [255, 255, 255];
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (!own || !element.checkVisibility()) continue;
  const pair = [parts(getComputedStyle(element).color).slice(0, 3), behind(element)].map(light);
  const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  found.push([ratio, element.tagName + "." + element.className + ": " + element.innerText]);
}
return found;
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window, in its own folder; nothing is downloaded for it."""
    browser, chromedriver = need("chromium", "chromedriver", packages="chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for switch in SWITCHES:
        options.add_argument(switch)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('browser')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = chrome.Service(executable_path=chromedriver)
    started = webdriver.Chrome(options=options, service=service)
    yield started
    started.quit()


@pytest.fixture(scope="module")
def path(make_case: Make, make_report: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every outcome, two sides and texts that are long or hostile."""
    vector = load().payload("rev2-golden-a")
    about = {"frames": [vector.hex.replace("11cc82", "cc8211")], "message": False}
    engine = make_report(
        make_case("W3", "rev2-golden-a", hazard="starves", bytes={**about, "against": vector.hex}),
        make_case("P2", "change-goes-at-once", hazard="stale", notes=["x" * 200] * 3),
        name="engine/with/a/very/long/name/for/one::TestEverythingAtOnceAndMore",
        side="engine",
        problems=["test_x.py could not be collected:\n" + "y" * 300],
        not_run=[{"what": "test_x.py::TestX: 3 tests", "why": "stopping after 1 failures"}],
    )
    routers = [
        make_report(
            make_case(),
            make_case("W8", "tail-nil", "declared", text="not yet"),
            make_case("W5", "gone", "stale", hazard=None, text="is gone"),
            make_case("F1", "all", "skipped", hazard=None, text="no frames"),
            make_case("-", "test_declarations", hazard=None, text="<script>boom()</script>\n\x00"),
            name=f"router-{number}",
            passed={"W1": [f"a-form-of-a-vector-with-a-long-name-{n}" for n in range(60)]},
        )
        for number in range(3)
    ]
    report = merge.merge([("x", one) for one in (engine, *routers)])
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(page.render(report), "utf-8")
    return file


@pytest.fixture
def browser(driver: Any, path: Path) -> Iterator[Any]:
    """The browser with the page open as on a desk, in light."""
    look(driver, DESK, "light")
    driver.get_log("performance")
    driver.get("about:blank")
    driver.get(path.as_uri())
    yield driver
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def look(driver: Any, size: tuple[int, int], scheme: str) -> None:
    """Make the window so large, in this colour scheme."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def open_all(driver: Any) -> None:
    """Open all that can be opened, and every cell as if it were the one that was asked for."""
    driver.execute_script(
        """
        document.querySelectorAll("details").forEach(d => d.open = true);
        document.querySelectorAll(".panel").forEach(p => p.style.display = "block");
        """
    )


def test_nothing_is_asked_for_and_nothing_complains(browser: Any) -> None:
    """The page makes no request but for itself, and the console stays empty."""
    look(browser, PHONE, "dark")
    browser.find_element("css selector", "td.cell a").click()

    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"].partition("#")[0]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert {browser.current_url.partition("#")[0]} == {
        url for url in asked if not url.startswith(("data:", "about:"))
    }
    assert [] == browser.get_log("browser")


def test_cells_open_without_script(browser: Any, path: Path) -> None:
    """With scripts off, a cell opens to its vectors and their bytes, and closes again."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(path.as_uri())
    cell = browser.find_element("css selector", "#m-0-W3")
    panel = browser.find_element("css selector", "#c-0-W3")
    assert (True, False) == (cell.is_displayed(), panel.is_displayed())
    assert "FAILED 1" == cell.text

    cell.click()

    assert panel.is_displayed()
    for text in ("rev2-golden-a", "bytes expected", "bytes got", ">  10  cc82"):
        assert text in panel.text
    panel.find_element("css selector", ".close").click()
    assert not panel.is_displayed()
    assert browser.current_url.endswith("#m-0-W3")


@pytest.mark.parametrize("place", [0, -1])
def test_a_closed_cell_is_in_sight(browser: Any, place: int) -> None:
    """On a phone too, the cell that was closed is in sight and not behind the table's heads."""
    look(browser, PHONE, "light")
    cell = browser.find_elements("css selector", "td.cell a")[place]
    panel = browser.find_element(
        "css selector", cell.get_attribute("href").rpartition("#")[2].join(("[id='", "']"))
    )

    cell.click()
    panel.find_element("css selector", ".close").click()
    # A click on what is covered by something else is refused by the driver.
    cell.click()

    assert panel.is_displayed()


def test_details_open_without_script(browser: Any, path: Path) -> None:
    """With scripts off, the worst failure is open and another opens."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(path.as_uri())
    clusters = browser.find_elements("css selector", "#failures .cluster")
    assert "an idle worker" in clusters[0].text
    assert "change-goes-at-once" not in clusters[-1].text

    stale = next(cluster for cluster in clusters if cluster.text.startswith("P2"))
    stale.find_element("css selector", "summary").click()

    assert "change-goes-at-once" in stale.text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_contrast(browser: Any, size: tuple[int, int], scheme: str) -> None:
    """All text stands out against what is behind it, by 4.5 to 1 at least."""
    look(browser, size, scheme)
    open_all(browser)

    found = browser.execute_script(CONTRAST)

    assert len(found) > 200
    assert [] == [(round(ratio, 2), text[:80]) for ratio, text in found if ratio < 4.5]
    back = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (scheme == "dark") == (back == "rgb(18, 22, 27)")


@pytest.mark.parametrize("size", [DESK, PHONE, (320, 640)], ids=["desk", "phone", "narrow"])
def test_the_page_does_not_scroll_sideways(browser: Any, size: tuple[int, int]) -> None:
    """However much is open, only boxes of their own scroll sideways, and all is in reach."""
    look(browser, size, "light")
    open_all(browser)

    wide, seen, matrix, box = browser.execute_script(
        """
        const page = document.documentElement, box = document.querySelector(".scroll");
        return [page.scrollWidth, page.clientWidth, box.scrollWidth, box.clientWidth];
        """
    )

    assert wide <= seen <= size[0]
    assert (size != DESK) == (matrix > box)
    panel = browser.execute_script(
        """
        document.querySelectorAll(".panel").forEach(p => p.style.display = "");
        location.hash = "c-0-W3";
        const panel = document.querySelector("#c-0-W3");
        return [panel.scrollWidth, panel.clientWidth];
        """
    )
    assert panel[0] <= panel[1]


def test_focus_is_seen(browser: Any) -> None:
    """Whatever has the focus of the keyboard has an outline."""
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    seen = set()
    body = browser.find_element("css selector", "body")
    for _ in range(12):
        body.send_keys(keys.TAB)
        name, style, width = browser.execute_script(
            """
            const now = document.activeElement, style = getComputedStyle(now);
            return [now.tagName, style.outlineStyle, style.outlineWidth];
            """
        )
        seen.add(name)
        assert ("solid", "3px") == (style, width), name
        body = browser.switch_to.active_element
    assert {"A", "SUMMARY", "PRE"} <= seen


def test_it_can_be_read_by_others(browser: Any) -> None:
    """The page has a language, a title, landmarks, and a table with heads for rows and columns."""
    found = browser.execute_script(
        """
        const count = what => document.querySelectorAll(what).length;
        return {
          lang: document.documentElement.lang, title: document.title,
          landmarks: ["header", "nav", "main", "footer"].map(count),
          columns: count("thead th[scope=col]"), rows: count("tbody th[scope=row]"),
          bare: count("th:not([scope])"), scripts: count("script"), h1: count("h1"),
        };
        """
    )

    assert ("en", "Load contract: 11 undeclared failures") == (found["lang"], found["title"])
    assert [1, 1, 1, 1] == found["landmarks"]
    assert (5, 0, 0, 1) == (found["columns"], found["bare"], found["scripts"], found["h1"])
    assert found["rows"] >= 7


def test_print(browser: Any) -> None:
    """On paper the matrix is whole, and what covers the page is not there."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        style = browser.execute_script(
            """
            location.hash = "c-0-W3";
            const style = what => getComputedStyle(document.querySelector(what));
            return [style(".scroll").overflow, style("#c-0-W3").display, style("nav").display];
            """
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    assert ["visible", "none", "none"] == style
