"""What a change of the contract breaks, for every kind of change that there was or may be."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from states import (
    State,
    append_revision_3,
    fields_of,
    new_field,
    only_revision_1,
    swap,
    vector_of,
    write_state,
)

from pytest_loadwire import vectors, wire
from pytest_loadwire.evolution import snapshot
from pytest_loadwire.evolution.breaking import Breaking, Change, compare
from pytest_loadwire.evolution.snapshot import Snapshot, SnapshotError
from pytest_loadwire.golden import payloads
from pytest_loadwire.golden.build import build
from pytest_loadwire.golden.freeze import field_breaks
from pytest_loadwire.rules import Hazard
from pytest_loadwire.witness import MsgpackWitness

TODAY = snapshot.from_folder(vectors.folder(), "today")
Edit = Callable[[State], None]


def state(tmp_path: Path, *edits: Edit, name: str = "new") -> Snapshot:
    return snapshot.from_folder(write_state(tmp_path / name, *edits), name)


def kinds(result: Breaking, grade: str = "breaking") -> Counter[str]:
    return Counter(change.kind for change in result.changes if change.grade == grade)


def orders(result: Breaking) -> dict[str, str]:
    """The idioms that do not stand a change, with who may go first."""
    return {row.idiom.id: row.order for row in result.rollout.broken}


def test_no_change():
    """The same state twice: nothing to say, and no order to keep."""
    result = compare(TODAY, TODAY)

    assert (True, (), [], {}) == (result.ok, result.changes, result.table, orders(result))
    assert (False, "either") == (result.rollout.changed, result.rollout.order)
    assert "no element of any revision changed" in result.rollout.why


def test_growth_from_6_to_11(tmp_path: Path):
    """What happened when revision 2 came: legal by the contract, and five idioms broke."""
    result = compare(state(tmp_path, only_revision_1), TODAY)

    assert result.ok
    assert not result.breaking
    (appended,) = [c for c in result.changes if c.kind == "revision appended"]
    assert ("W11", "additive", "revision 2", ("routers", "engines")) == (
        appended.rule,
        appended.grade,
        appended.what,
        appended.who,
    )
    assert ["NilTail", "PartialTail"] == sorted(
        c.what for c in result.changes if c.kind == "policy added"
    )
    assert "either" == result.rollout.order
    assert {
        "rust-rmp-serde-tuple": "neither",
        "rust-rmp-serde-defaults": "neither",
        "go-vmihailenco-struct": "neither",
        "go-ugorji-struct": "engines first",
        "python-msgspec-typed": "engines first",
    } == orders(result)
    (defaults,) = [r for r in result.rollout.rows if r.idiom.id == "rust-rmp-serde-defaults"]
    assert ("refuses", 2, Hazard.STALE) == (
        defaults.old_router.deed,
        defaults.old_router.revision,
        defaults.old_router.hazard,
    )
    assert ("invents zeros", 1, Hazard.ATTRACTS_ALL) == (
        defaults.new_router.deed,
        defaults.new_router.revision,
        defaults.new_router.hazard,
    )
    assert Hazard.ATTRACTS_ALL == defaults.hazard


def test_appended_revision(tmp_path: Path):
    """A revision more is legal; what an idiom did wrong before is not held against it again."""
    result = compare(TODAY, state(tmp_path, append_revision_3))

    assert result.ok
    assert [
        Change(
            "W11",
            "additive",
            "revision appended",
            "revision 3",
            "12 elements, those of revision 2, then num_preempted_reqs",
            ("routers", "engines"),
        )
    ] == list(result.changes)
    assert "either" == result.rollout.order
    zeros = {
        row.idiom.id: row.new_router
        for row in result.rollout.rows
        if row.new_router.deed == "invents zeros"
    }
    # Of revision 1 they invented zeros before the change as well.
    assert {2} == {cell.revision for cell in zeros.values()}
    assert {"0 for num_preempted_reqs"} == {cell.detail for cell in zeros.values()}
    assert {"rust-rmp-serde-defaults", "go-ugorji-struct", "python-msgspec-typed"} == set(zeros)
    assert {Hazard.ATTRACTS_ALL} == {cell.hazard for cell in zeros.values()}


class LoadStatRev3(
    wire.LoadStatRev2, array_like=True, tag=wire.TAG, frozen=True, kw_only=True, gc=False
):
    """A revision that does not exist: one more element."""

    num_preempted_reqs: wire.Requests


def test_appended_revision_as_regeneration_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The same with goldens of the new revision, and the verdicts of its readers everywhere."""
    root = write_state(tmp_path / "new")
    more = {name: (*values, 70_004) for name, values in payloads.GOLDENS[2].items()}
    monkeypatch.setitem(wire.REVISIONS, 3, LoadStatRev3)
    monkeypatch.setitem(payloads.RULE_OF_REVISION, 3, "W11")
    monkeypatch.setitem(payloads.GOLDENS, 3, more)
    fields = {**MsgpackWitness.FIELDS, 3: LoadStatRev3.__struct_fields__}
    monkeypatch.setattr(MsgpackWitness, "FIELDS", fields)
    for name, content in build().files.items():
        (root / name).write_bytes(content)

    result = compare(TODAY, snapshot.from_folder(root, "new"))

    assert result.ok
    assert {"additive"} == {c.grade for c in result.changes}
    assert {"revision appended", "vector added"} == {c.kind for c in result.changes}
    assert "rev3-golden-a" in {c.what for c in result.changes}
    assert orders(compare(TODAY, state(tmp_path, append_revision_3, name="bare"))) == orders(result)


def test_reordered_field(tmp_path: Path):
    """Two fields that change places are misread by everybody who reads by position."""
    result = compare(TODAY, state(tmp_path, swap))

    assert not result.ok
    assert Counter({"field reordered": 2}) == kinds(result)
    assert "neither" == result.rollout.order
    assert "not without downtime" in result.rollout.why
    cell = result.rollout.reference.old_router
    assert ("misreads", 2) == (cell.deed, cell.revision)
    assert "num_running_reqs as 17 instead of 130, since it takes num_waiting_reqs" in cell.detail
    # Only the one that knows no revision 2 at all is no worse off.
    assert {"neither"} == set(orders(result).values())
    assert len(result.rollout.rows) == len(orders(result))


def test_inserted_field(tmp_path: Path):
    """A field in the middle moves all that follow."""
    result = compare(TODAY, state(tmp_path, lambda s: fields_of(s).insert(5, new_field())))

    assert Counter({"field inserted": 1}) == kinds(result)
    assert "neither" == result.rollout.order
    assert "misreads" == result.rollout.reference.old_router.deed
    assert "what follows moves" in result.breaking[0].how


def test_field_appended_to_a_released_revision(tmp_path: Path):
    """Even at the end a released revision takes no more fields; but both orders are safe."""
    result = compare(TODAY, state(tmp_path, lambda s: fields_of(s).append(new_field())))

    assert not result.ok
    assert Counter({"field appended": 1}) == kinds(result)
    assert "engines first" in orders(result).values()


def test_removed_field(tmp_path: Path):
    """A field that is gone from the end is missed by routers that were not upgraded."""
    result = compare(TODAY, state(tmp_path, lambda s: fields_of(s).pop()))

    assert Counter({"field removed": 1}) == kinds(result)
    assert "routers first" == result.rollout.order
    cell = result.rollout.reference.old_router
    assert "loses fields" == cell.deed
    assert "no max_running_requests, num_total_tokens" in cell.detail
    assert result.rollout.why.startswith("routers first: a router from before the change loses")


def test_renamed_field(tmp_path: Path):
    """Another name in the old place is another field, as far as anybody can tell."""
    result = compare(TODAY, state(tmp_path, lambda s: fields_of(s)[2].update(name="num_kv_tokens")))

    assert Counter({"field renamed": 1}) == kinds(result)
    assert "is num_kv_tokens now" in result.breaking[0].how
    assert "num_kv_tokens as num_tokens" == result.rollout.reference.old_router.detail


def test_retyped_field(tmp_path: Path):
    """A count that becomes a float is refused by the strict, and taken or cut by the loose."""
    result = compare(TODAY, state(tmp_path, lambda s: fields_of(s)[2].update(type="float")))

    assert Counter({"field retyped": 1}) == kinds(result)
    assert "its type was count and is float" in result.breaking[0].how
    deeds = {row.idiom.id: row.old_router.deed for row in result.rollout.rows}
    assert "refuses" == result.rollout.reference.old_router.deed
    assert "routers first" == result.rollout.order
    assert "misreads" == deeds["go-vmihailenco-generic"]
    (loose,) = [r for r in result.rollout.rows if r.idiom.id == "go-vmihailenco-generic"]
    # 3.5 tokens, cut to 3, are less than there are.
    assert Hazard.ATTRACTS_ALL == loose.old_router.hazard
    assert "refuses" == deeds["java-msgpack-core"]
    (java,) = [r for r in result.rollout.rows if r.idiom.id == "java-msgpack-core"]
    assert ("refuses", "neither") == (java.new_router.deed, java.order)


def test_unit(tmp_path: Path):
    """The same number in another unit is misread without one other byte."""
    result = compare(TODAY, state(tmp_path, lambda s: fields_of(s)[2].update(unit="pages")))

    assert Counter({"field of another unit": 1}) == kinds(result)
    cell = result.rollout.reference.old_router
    assert ("misreads", "num_tokens, in pages, as tokens", Hazard.ATTRACTS_ALL) == (
        cell.deed,
        cell.detail,
        cell.hazard,
    )
    assert "neither" == result.rollout.order


def test_revision_gone(tmp_path: Path):
    """A revision that is dropped breaks who reads it; engines of it are still out there."""
    result = compare(TODAY, state(tmp_path, only_revision_1))

    assert "revision dropped" in kinds(result)
    assert not result.ok


def test_new_revision_that_does_not_begin_with_the_last(tmp_path: Path):
    """A new revision that moves what was there is no growth at the end."""

    def put_first(s: State) -> None:
        s["manifest"]["revisions"]["3"] = [new_field(), *fields_of(s)]

    result = compare(TODAY, state(tmp_path, put_first))

    assert not result.ok
    assert "field inserted by revision 3" in kinds(result)
    assert "misreads" == result.rollout.reference.old_router.deed
    assert "routers first" == result.rollout.order


def changed_hex(s: State) -> None:
    vector_of(s, "rev1-golden-a")["hex"] = "96a84c6f61645374617412cc82cd9c40ce000f424005"


def accepted(s: State) -> None:
    vector = vector_of(s, "too-short-1-elements")
    vector["readers"]["1"] = {"verdict": "accept", "revision": 1, "value": {}}


# what is done to one released vector; what is said of it; who has to act
VECTOR_CHANGES: list[tuple[Edit, str, str, tuple[str, ...]]] = [
    (
        changed_hex,
        "W2 vector with other bytes: rev1-golden-a: hex was 96a84c6f61645374617411cc",
        "and is 96a84c6f61645374617412cc",
        ("test suites", "engines"),
    ),
    (
        accepted,
        "W9 verdict changed: too-short-1-elements, reader of revision 1:",
        "was reject (too-short) and is accept as revision 1",
        ("routers", "test suites"),
    ),
    (
        lambda s: vector_of(s, "top-nil")["readers"]["2"].update(reason="bad-tag"),
        "W10 verdict changed: top-nil, reader of revision 2:",
        "was reject (not-array) and is reject (bad-tag)",
        ("routers", "test suites"),
    ),
    (
        lambda s: vector_of(s, "top-nil")["readers"]["2"].update(hazard="none"),
        "W10 verdict with other content: top-nil, reader of revision 2:",
        "other hazard",
        ("routers", "test suites"),
    ),
    (
        lambda s: vector_of(s, "rev1-golden-a").update(engine=None),
        "W2 vector of another engine: rev1-golden-a:",
        "was for engines of revision 1 and is for no engine",
        ("test suites", "engines"),
    ),
    (
        lambda s: s["payloads"]["vectors"].remove(vector_of(s, "top-nil")),
        "W10 vector dropped: top-nil:",
        "every suite that pins it by id",
        ("test suites",),
    ),
    (
        lambda s: s["cadence"]["vectors"][0].update(steps=[]),
        "vector with other content:",
        "other steps",
        ("test suites",),
    ),
]


@pytest.mark.parametrize(("edit", "begins", "says", "who"), VECTOR_CHANGES)
def test_vector_change(tmp_path: Path, edit: Edit, begins: str, says: str, who: tuple[str, ...]):
    """A released vector keeps bytes, verdicts and content; what did not is named with its rule."""
    result = compare(TODAY, state(tmp_path, edit))

    (change,) = result.changes
    assert "breaking" == change.grade
    assert begins in str(change)
    assert says in str(change)
    assert who == change.who
    assert not result.ok
    assert "either" == result.rollout.order


def test_words(tmp_path: Path):
    """Why a vector is there may be said better."""
    result = compare(TODAY, state(tmp_path, lambda s: vector_of(s, "top-nil").update(why="better")))

    assert Counter({"vector reworded": 1}) == kinds(result, "wording")
    assert result.ok


def test_what_is_not_released_may_change(tmp_path: Path):
    """A vector and a revision that no release has are nobody's yet."""

    def unreleased(s: State) -> None:
        del s["released"]["vectors"]["top-nil"]
        append_revision_3(s)

    def gone(s: State) -> None:
        unreleased(s)
        s["payloads"]["vectors"].remove(vector_of(s, "top-nil"))
        s["manifest"]["revisions"]["3"][-1]["unit"] = "tokens"

    result = compare(state(tmp_path, unreleased, name="old"), state(tmp_path, gone, name="changed"))

    assert Counter({"vector dropped": 1, "field of another unit": 1}) == kinds(result, "additive")
    assert result.ok
    # Nobody runs what was not released: this is revision 3 as it comes now.
    assert "either" == result.rollout.order


def test_release_that_is_gone(tmp_path: Path):
    """Without released.json nothing holds what was released."""
    result = compare(TODAY, state(tmp_path, lambda s: s.pop("released")))

    assert Counter({"release dropped": 1}) == kinds(result)
    assert any("no released.json" in note for note in result.notes)


def test_rules_and_codes(tmp_path: Path):
    """Rules may come and be reworded but not go; so may codes and policies."""
    root = write_state(tmp_path / "new")
    page = (root / "README.md").read_text("utf-8")
    page = page.replace("- **W1** The payload is one", "- **W1** A payload is one")
    page = page.replace("- **W11** ", "- **W13** ")
    page = page.replace("| `not-canonical` | W6 |", "| `too-long` | W6 |")
    (root / "README.md").write_text(page, "utf-8")

    result = compare(TODAY, snapshot.from_folder(root, "new"))

    found = {(c.kind, c.what, c.grade) for c in result.changes}
    assert {
        ("rule reworded", "W1", "wording"),
        ("rule dropped", "W11", "breaking"),
        ("rule added", "W13", "additive"),
        ("reason code dropped", "not-canonical", "breaking"),
        ("reason code added", "too-long", "additive"),
    } == found


class TestFolders:
    """Folders that are not today's."""

    def test_older(self, tmp_path: Path) -> None:
        """A folder from before a subject existed is compared by what it has."""

        def older(s: State) -> None:
            del s["readings"], s["released"]

        result = compare(state(tmp_path, older), TODAY)

        assert result.ok
        assert {"C2", "C7"} < {c.rule for c in result.changes if c.kind == "vector added"}
        assert "old: it has no readings.json" in result.notes

    def test_fields_without_type_and_unit(self, tmp_path: Path) -> None:
        """A manifest that says less of its fields had counts; an unknown unit is no other unit."""

        def bare(s: State) -> None:
            for fields in s["manifest"]["revisions"].values():
                for field in fields:
                    del field["unit"], field["since"]

        result = compare(state(tmp_path, bare), TODAY)

        assert result.ok
        assert not result.breaking

    def test_newer(self, tmp_path: Path) -> None:
        """A folder of a later version: what is unknown is named, the rest is compared."""

        def newer(s: State) -> None:
            s["manifest"]["format"] = 2
            s["manifest"]["files"]["seals.json"] = {}
            seal = {"id": "seal-a", "rule": "Z1", "why": "sealed", "seal": {"reason": "broken"}}
            s["seals"] = {"format": 2, "subject": "seals", "vectors": [seal]}
            s["payloads"]["vectors"][0]["colour"] = "blue"

        result = compare(TODAY, state(tmp_path, newer))

        assert [
            "new: format 2, and this kit knows 1",
            "new: rules that this version of the kit does not know: Z1",
        ] == list(result.notes)
        added = [c for c in result.changes if c.grade == "additive"]
        assert [("Z1", "vector added"), ("Z1", "reason code added")] == [
            (c.rule, c.kind) for c in added
        ]
        assert Counter({"vector with other content": 1}) == kinds(result)

    def test_hash(self, tmp_path: Path) -> None:
        """A file that somebody edited by hand is read, with a note."""
        root = write_state(tmp_path / "new")
        path = root / "payloads.json"
        path.write_text(path.read_text("utf-8") + "\n", "utf-8")

        result = compare(TODAY, snapshot.from_folder(root, "new"))

        assert ("new: payloads.json does not have the hash that the manifest gives",) == (
            result.notes
        )

    def test_two_of_a_name(self, tmp_path: Path) -> None:
        """An id that stands for two vectors is noted; the later one is compared."""
        new = state(tmp_path, lambda s: s["payloads"]["vectors"].append(vector_of(s, "top-nil")))

        assert ("new: two vectors are called top-nil",) == compare(TODAY, new).notes

    @pytest.mark.parametrize(
        ("file", "content", "says"),
        [
            ("manifest.json", None, "x is no golden folder: it has no manifest.json"),
            ("manifest.json", "{", "x: manifest.json is no JSON: "),
            ("manifest.json", "[]", "x: manifest.json is no JSON object"),
            ("manifest.json", "{}", "x: manifest.json lists no vector files"),
            ("manifest.json", '{"files": {}}', "x: manifest.json has no revisions"),
            (
                "manifest.json",
                '{"files": {}, "revisions": {"two": []}}',
                "x: manifest.json has no list of fields for 'two'",
            ),
            (
                "manifest.json",
                '{"files": {}, "revisions": {"2": [{"name": 7}]}}',
                "x: manifest.json has no list of fields for '2'",
            ),
            (
                "manifest.json",
                '{"files": {}, "revisions": {"2": [{"name": "a", "type": {}}]}}',
                "x: manifest.json has no list of fields for '2'",
            ),
            (
                "manifest.json",
                '{"files": {}, "revisions": {"2": [{"name": "a"}, {"name": "a"}]}}',
                "x: manifest.json has two fields of one name in revision 2",
            ),
            ("frames.json", None, "x: manifest.json lists frames.json, and it is not there"),
            ("frames.json", "{", "x: frames.json is no JSON: "),
            ("frames.json", "{}", "x: frames.json has no list of vectors with ids"),
            ("frames.json", '{"vectors": [7]}', "x: frames.json has no list of vectors with ids"),
            (
                "frames.json",
                '{"vectors": [{"id": "a", "readers": {"new": {}}}]}',
                "x: frames.json has no list of vectors with ids",
            ),
            ("released.json", "{}", "x: released.json has no vectors"),
        ],
    )
    def test_broken(self, tmp_path: Path, file: str, content: str | None, says: str) -> None:
        """What cannot be understood is refused by file, never compared as if it were empty."""
        root = write_state(tmp_path / "new")
        if content is None:
            (root / file).unlink()
        else:
            (root / file).write_text(content, "utf-8")

        with pytest.raises(SnapshotError) as caught:
            snapshot.from_folder(root, "x")

        assert str(caught.value).startswith(says)

    def test_any_content(self) -> None:
        """Members of any other type make a note, a change or a refusal, and nothing else."""
        chance = random.Random(7)  # noqa: S311 - chance, not secrecy
        odd = [None, 7, "x", [], {}, [[]], {"a": {}}]
        files = {path.name: path.read_bytes() for path in vectors.folder().glob("*.json")}
        compared = 0
        for _ in range(40):
            content = json.loads(files["payloads.json"])
            content["vectors"] = content["vectors"][::20]
            for vector in chance.sample(content["vectors"], 3):
                vector[chance.choice([*vector])] = chance.choice(odd)
            edited = {**files, "payloads.json": json.dumps(content).encode()}
            try:
                made = snapshot.from_files(edited, "made")
            except SnapshotError:
                continue
            json.dumps([compare(TODAY, made).to_json(), compare(made, TODAY).to_json()])
            compared += 1
        assert compared > 10


def test_agrees_with_what_regeneration_refuses():
    """A change of fields breaks here if and only if regeneration would refuse it."""
    chance = random.Random(11)  # noqa: S311 - chance, not secrecy
    revisions = json.loads(json.dumps({str(n): f for n, f in TODAY.revisions.items()}))
    released = {"revisions": revisions, "vectors": {}}
    old = Snapshot("old", TODAY.revisions, {})
    for _ in range(200):
        changed: dict[str, Any] = json.loads(json.dumps(revisions))
        for _ in range(chance.randrange(3)):
            edit_at_random(chance, changed)
        new = Snapshot("new", {int(n): fields for n, fields in changed.items()}, {})

        result = compare(old, new)

        assert bool([*field_breaks(released, changed)]) == bool(result.breaking), changed
        assert bool(result.changes) == (changed != revisions)


def edit_at_random(chance: random.Random, revisions: dict[str, list[dict[str, Any]]]) -> None:
    fields = revisions[chance.choice([*revisions])]
    place = chance.randrange(len(fields))
    edit = chance.choice(["insert", "remove", "rename", "retype", "unit", "move", "append"])
    if edit == "insert":
        fields.insert(place, new_field(f"num_{chance.random()}"))
    elif edit == "remove" and len(fields) > 1:
        del fields[place]
    elif edit == "rename":
        fields[place]["name"] += "_too"
    elif edit == "retype":
        fields[place]["type"] = "float"
    elif edit == "unit":
        fields[place]["unit"] = "pages"
    elif edit == "move":
        fields.insert(chance.randrange(len(fields)), fields.pop(place))
    else:
        newest = max(revisions, key=int)
        more = new_field(f"num_{chance.random()}")
        revisions[str(int(newest) + 1)] = [*revisions[newest], more]


def test_json(tmp_path: Path):
    """The result for machines has all of it, and survives being written."""
    result = compare(TODAY, state(tmp_path, swap, changed_hex))
    said = json.loads(json.dumps(result.to_json()))

    assert (False, {"breaking": 3, "additive": 0, "wording": 0}) == (said["ok"], said["grades"])
    assert ["routers", "engines"] == said["changes"][1]["who"]
    assert "neither" == said["rollout"]["order"]
    assert "misreads" == said["rollout"]["reference"]["old_router_new_engine"]["deed"]
    assert 11 == len(said["rollout"]["idioms"])
