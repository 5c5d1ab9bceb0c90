"""The README's tables of decoders in the wild, as they come out of a run.

`python tests/decoders/table.py` prints them, `--write` puts them into the README.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from decoders.catalogue import BY_NAME, WILD, asked
from pytest_loadwire import skew
from pytest_loadwire.conform import Conformance
from pytest_loadwire.rules import Hazard

README = Path(__file__).resolve().parents[2] / "README.md"

COLUMNS = ("decoder", "library", "reads", "refuses", "accepts", "misreads", "crashes", "hazard")


def conformance_table(names: Sequence[str]) -> list[str]:
    """One row for each decoder: by deed the rules that it breaks, and the worst that this does."""
    rows = [list(COLUMNS)]
    for name in names:
        decoder, (result, _) = BY_NAME[name], asked(name)
        rows.append(
            [
                f"{decoder.language}: {decoder.idiom}",
                f"{decoder.library} {decoder.version}",
                f"revision {result.revision}",
                *(_rules(result, d) for d in ("refused", "accepted", "wrong-value", "crashed")),
                _hazards(result),
            ]
        )
    return _markdown(rows)


def skew_table(names: Sequence[str]) -> list[str]:
    """The reference readers and each decoder against every revision's engine."""
    header, *reference = skew.table(skew.reference())
    rows = [header, *reference]
    for name in names:
        _, row = asked(name)
        (line,) = skew.table([row])[1:]
        decoder = BY_NAME[name]
        rows.append([f"{decoder.language}: {decoder.idiom}", *line[1:]])
    return _markdown(rows)


def between(text: str, name: str) -> str:
    """What stands between a table's two marks."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert found is not None, f"the README has no marks {name}"
    return found[1]


def _rules(result: Conformance, deed: str) -> str:
    rules = {f.rule for f in result.failures if f.finding.deed == deed}
    return " ".join(rule for rule in result.rules if rule in rules)


def _hazards(result: Conformance) -> str:
    found = [hazard for hazard in result.hazards if hazard is not Hazard.NONE]
    if not result.failures:
        return "**conforms**"
    return ", ".join(found) or "none"


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    header, *body = rows
    lines = [header, ["---"] * len(header), *body]
    return ["| " + " | ".join(line) + " |" for line in lines]


def main() -> None:
    """Print the tables, or write them."""
    names = [decoder.name for decoder in WILD]
    text = README.read_text("utf-8")
    for name, table in {"decoders": conformance_table(names), "skew": skew_table(names)}.items():
        print(*table, sep="\n", end="\n\n")  # noqa: T201 - that is what it is for
        if "--write" in sys.argv[1:]:
            begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
            old = f"{begin}{between(text, name)}{end}"
            text = text.replace(old, "\n".join([begin + table[0], *table[1:], end]))
            README.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
