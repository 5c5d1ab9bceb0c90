"""What was released stays: every breaking change is refused in words, a new revision is not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_loadwire import wire
from pytest_loadwire.golden import payloads, rejects
from pytest_loadwire.golden.__main__ import main
from pytest_loadwire.golden.freeze import Break, breaks, digest, field_breaks, released
from pytest_loadwire.rules import Policy, Reason
from pytest_loadwire.vectors import Accept, load
from pytest_loadwire.witness import MsgpackWitness

GOLDEN = load()
REVISIONS = GOLDEN.manifest["revisions"]
PACKAGE = Path(wire.__file__).parent

Fields = list[dict[str, Any]]


def new_field(name: str = "num_preempted_reqs", since: int = 2) -> dict[str, Any]:
    return {"name": name, "type": "count", "unit": "requests", "since": since}


def swap(fields: Fields) -> None:
    fields[0], fields[1] = fields[1], fields[0]


def insert(fields: Fields) -> None:
    fields.insert(5, new_field())


def append(fields: Fields) -> None:
    fields.append(new_field())


def change(key: str, value: str) -> Callable[[Fields], None]:
    return lambda fields: fields[2].update({key: value})


def remove(fields: Fields) -> None:
    del fields[7]


def breaks_2(what: str, instead: str = "") -> str:
    """The sentence for a change of revision 2."""
    return f"W11 {what}; breaks every router that reads revision 2 by position{instead}"


def moves(element: int, name: str, to: int, there: str) -> str:
    return breaks_2(
        f"element {element} ({name}) moves to {to}", f": it would take {there} for {name}"
    )


def put_in(element: int) -> str:
    return breaks_2(
        f"element {element} (num_preempted_reqs) is put into revision 2; a new field goes to the"
        " end of a new revision"
    )


# what is done to the fields of revision 2, and sentences that the refusal has
FIELD_CHANGES: list[tuple[str, Callable[[Fields], None], list[str]]] = [
    (
        "reordered",
        swap,
        [
            moves(1, "num_running_reqs", 2, "num_waiting_reqs"),
            moves(2, "num_waiting_reqs", 1, "num_running_reqs"),
        ],
    ),
    (
        "inserted",
        insert,
        [moves(6, "num_waiting_uncached_tokens", 7, "num_preempted_reqs"), put_in(6)],
    ),
    ("appended to a released revision", append, [put_in(11)]),
    (
        "retyped",
        change("type", "float"),
        [breaks_2("element 3 (num_tokens) changes its type from count to float")],
    ),
    (
        "made nullable",
        change("type", "count-or-nil"),
        [breaks_2("element 3 (num_tokens) changes its type from count to count-or-nil")],
    ),
    (
        "of another unit",
        change("unit", "pages"),
        [breaks_2("element 3 (num_tokens) changes its unit from tokens to pages")],
    ),
    (
        "renamed",
        change("name", "num_kv_tokens"),
        [breaks_2("element 3 (num_tokens) is removed or renamed")],
    ),
    (
        "removed",
        remove,
        [
            breaks_2("element 8 (max_running_requests) is removed or renamed"),
            moves(9, "total_prefill_uncached_tokens", 8, "total_prefill_busy_us"),
            moves(10, "total_prefill_busy_us", 9, "nothing"),
        ],
    ),
]

# text in wire.py, what it becomes, a sentence of the refusal: the same changes, where they are made
SOURCE_CHANGES = [
    (
        "    num_running_reqs: Requests\n    num_waiting_reqs: Requests\n",
        "    num_waiting_reqs: Requests\n    num_running_reqs: Requests\n",
        "W11 element 1 (num_running_reqs) moves to 2;",
    ),
    (
        "    num_total_tokens: Tokens\n",
        "    num_preempted_reqs: Requests\n    num_total_tokens: Tokens\n",
        "W11 element 7 (num_preempted_reqs) is put into revision 2;",
    ),
    (
        "    num_tokens: Tokens\n",
        '    num_tokens: Annotated[float, msgspec.Meta(ge=0, extra={"unit": "tokens"})]\n',
        "W11 element 3 (num_tokens) changes its type from count to float;",
    ),
    (
        "    num_tokens: Tokens\n",
        "    num_tokens: Requests\n",
        "W11 element 3 (num_tokens) changes its unit from tokens to requests;",
    ),
    (
        "    max_running_requests: Requests\n",
        "    running_limit: Requests\n",
        "W11 element 8 (max_running_requests) is removed or renamed;",
    ),
    (
        "    max_running_requests: Requests\n",
        "",
        "W11 element 8 (max_running_requests) is removed or renamed;",
    ),
    (
        "{1: LoadStatRev1, 2: LoadStatRev2}",
        "{1: LoadStatRev1}",
        "W11 revision 2 is gone;",
    ),
]


def content(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def refused(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``--write`` says when it refuses; nothing is written then."""
    before = content(root)
    assert main(["--write", "--root", str(root)]) == 1
    assert before == content(root)
    said = capsys.readouterr().out
    assert ", nothing written" in said.splitlines()[-1]
    return said


@pytest.mark.parametrize(
    ("apply", "sentences"),
    [(apply, sentences) for _, apply, sentences in FIELD_CHANGES],
    ids=[name for name, _, _ in FIELD_CHANGES],
)
def test_field_change(apply: Callable[[Fields], None], sentences: list[str]) -> None:
    """A changed field of a released revision is a break that names rule, field and who breaks."""
    frozen = released("0.1.0", REVISIONS, ())
    changed = json.loads(json.dumps(REVISIONS))
    apply(changed["2"])
    found = list(map(str, field_breaks(frozen, changed)))
    assert sentences == [sentence for sentence in found if sentence in sentences]
    assert found == list(map(str, breaks(frozen, changed, ())))


def test_unchanged_fields() -> None:
    """What is as it was breaks nothing."""
    frozen = released("0.1.0", REVISIONS, GOLDEN.payloads)
    assert [] == list(breaks(frozen, REVISIONS, GOLDEN.payloads))


def test_revision_gone() -> None:
    """A released revision that is not there any more breaks its routers."""
    frozen = released("0.1.0", REVISIONS, ())
    expected = [
        Break("W11", "revision 2 is gone", "every router that reads revision 2 by position")
    ]
    assert expected == list(field_breaks(frozen, {"1": REVISIONS["1"]}))


def test_new_revision_that_moves_fields() -> None:
    """A new revision begins with the fields of the one before, or it breaks who reads that one."""
    frozen = released("0.1.0", REVISIONS, ())
    moved: Fields = [new_field(since=3), *REVISIONS["2"]]  # type: ignore[list-item]
    found = list(map(str, field_breaks(frozen, {**REVISIONS, "3": moved})))
    assert moves(1, "num_running_reqs", 2, "num_preempted_reqs") == found[0]
    appended: Fields = [*REVISIONS["2"], new_field(since=3)]  # type: ignore[list-item]
    assert [] == list(field_breaks(frozen, {**REVISIONS, "3": appended}))


class TestDigest:
    VECTOR = GOLDEN.payload("rev1-spelled-headers")

    @pytest.mark.parametrize(
        "changes",
        [
            {"hex": "96"},
            {"engine": None},
            {"engine": 2},
            {"spellings": {}},
            {"spellings": {**VECTOR.spellings, "array-16": "dc"}},
            {"readers": {}},
            {"readers": {**VECTOR.readers, "1": VECTOR.readers["2"]} | {"2": Accept(2, {})}},
        ],
    )
    def test_frozen(self, changes: dict[str, Any]) -> None:
        """Bytes, spellings, engine and verdicts are frozen."""
        changed = msgspec.structs.replace(self.VECTOR, **changes)
        assert digest(self.VECTOR, 2) != digest(changed, 2)

    @pytest.mark.parametrize("changes", [{"why": "said better"}, {"source": "said better"}])
    def test_words(self, changes: dict[str, Any]) -> None:
        """The words that explain a vector are not."""
        changed = msgspec.structs.replace(self.VECTOR, **changes)
        assert digest(self.VECTOR, 2) == digest(changed, 2)

    def test_later_reader(self) -> None:
        """The verdict of a later revision's reader changes nothing for those before it."""
        later = {**self.VECTOR.readers, "3": self.VECTOR.readers["2"]}
        changed = msgspec.structs.replace(self.VECTOR, readers=later)
        assert digest(self.VECTOR, 2) == digest(changed, 2)
        assert digest(self.VECTOR, 3) != digest(changed, 3)


class TestRegeneration:
    """The same, by the command, on a released copy."""

    def test_release(self, released_root: Path) -> None:
        """A release writes down its version, every field and every vector."""
        frozen = json.loads((released_root / "released.json").read_text("utf-8"))
        assert frozen["release"] == "0.1.0"
        assert REVISIONS == frozen["revisions"]
        assert {vector.id for vector in GOLDEN.payloads} < set(frozen["vectors"])
        assert {vector.id for vector in GOLDEN.frames} < set(frozen["vectors"])
        assert main(["--check", "--root", str(released_root)]) == 0

    def test_changed_fields(
        self,
        released_root: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A changed field is refused before anything is made of it, and nothing else is said."""
        fields = [(name, wire.Tokens) for name in wire.field_names(2)]
        fields[5], fields[6] = fields[6], fields[5]
        kind = msgspec.defstruct("LoadStatRev2", fields, array_like=True, tag=wire.TAG)
        monkeypatch.setitem(wire.REVISIONS, 2, kind)
        said = refused(released_root, capsys)
        assert "W11 element 6 (num_waiting_uncached_tokens) moves to 7;" in said
        assert all(line.startswith(("W11 ", "golden: ")) for line in said.splitlines())

    def test_dropped_vector(
        self,
        released_root: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A released vector that no family makes any more is refused by its id."""
        monkeypatch.setattr(payloads, "BOUNDARIES", payloads.BOUNDARIES[1:])
        said = refused(released_root, capsys)
        assert (
            "W11 released vector 'rev1-num-tokens-0' is gone; breaks every repository that pins it"
            " by id; a new vector takes a new id\n"
        ) in said
        assert "'rev1-num-tokens-1'" not in said

    def test_changed_hex(
        self,
        released_root: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Other bytes under a released id are refused, also if they are right."""
        changed = (300, 66_000, 21, 180, 40_002)
        monkeypatch.setitem(payloads.GOLDENS[1], "c", changed)
        said = refused(released_root, capsys)
        assert (
            "W2 released vector 'rev1-golden-c' has other bytes or verdicts; breaks every"
            " implementation that was tested against it\n"
        ) in said
        assert "'rev1-golden-b'" not in said

    def test_changed_verdict(
        self,
        released_root: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Another verdict for released bytes is refused."""
        name, given, _, why = rejects.TOP_LEVEL[1]
        table = [*rejects.TOP_LEVEL]
        table[1] = (name, given, Reason.BAD_TAG, why)
        monkeypatch.setattr(rejects, "TOP_LEVEL", tuple(table))
        assert (
            "W1 released vector 'top-nil' has other bytes or verdicts; breaks every implementation"
        ) in refused(released_root, capsys)

    def test_new_vector(
        self,
        released_root: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A new vector is taken, with its own lines in every file that lists vectors."""
        monkeypatch.setitem(payloads.GOLDENS[1], "d", (301, 66_001, 22, 181, 40_003))
        assert main(["--write", "--root", str(released_root)]) == 0
        assert "rev1-golden-d" in {vector.id for vector in load(released_root).payloads}
        assert "`rev1-golden-d`" in (released_root / "INDEX.md").read_text("utf-8")
        assert main(["--check", "--root", str(released_root)]) == 0

    @pytest.mark.parametrize("release", ["0.1.0", "0.2.0"])
    def test_release_again(
        self,
        released_root: Path,
        monkeypatch: pytest.MonkeyPatch,
        release: str,
    ) -> None:
        """Releasing again is no way around what is frozen."""
        before = content(released_root)
        monkeypatch.setitem(payloads.GOLDENS[1], "c", (300, 66_000, 21, 180, 40_002))
        assert main(["--release", release, "--root", str(released_root)]) == 1
        assert before == content(released_root)


class LoadStatRev3(
    wire.LoadStatRev2, array_like=True, tag=wire.TAG, frozen=True, kw_only=True, gc=False
):
    """A revision that does not exist: one more element."""

    num_preempted_reqs: wire.Requests


class LoadStatRev3Wide(
    wire.LoadStatRev2, array_like=True, tag=wire.TAG, frozen=True, kw_only=True, gc=False
):
    """A revision that does not exist: three more elements, so that a tail can be partial."""

    num_preempted_reqs: wire.Requests
    num_paused_reqs: wire.Requests
    total_decode_busy_us: wire.Microseconds


# what each golden of revision 3 appends; together with the rest they use every integer width
APPENDED: dict[type[wire.LoadStatRev2], dict[str, tuple[int, ...]]] = {
    LoadStatRev3: {"a": (41,), "b": (70_004,), "c": (44,)},
    LoadStatRev3Wide: {"a": (41, 602, 70_003), "b": (302, 70_005, 42), "c": (44, 70_006, 303)},
}


@pytest.fixture(params=[LoadStatRev3, LoadStatRev3Wide])
def revision_3(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> type[wire.LoadStatRev2]:
    """What a change of the contract consists of: struct, rule, goldens, and the other witness."""
    kind: type[wire.LoadStatRev2] = request.param
    goldens = {name: payloads.GOLDENS[2][name] + more for name, more in APPENDED[kind].items()}
    monkeypatch.setitem(wire.REVISIONS, 3, kind)
    monkeypatch.setitem(payloads.RULE_OF_REVISION, 3, "W11")
    monkeypatch.setitem(payloads.GOLDENS, 3, goldens)
    monkeypatch.setattr(
        MsgpackWitness, "FIELDS", {**MsgpackWitness.FIELDS, 3: kind.__struct_fields__}
    )
    return kind


def test_appended_revision(
    released_root: Path, revision_3: type[wire.LoadStatRev2], capsys: pytest.CaptureFixture[str]
) -> None:
    """A revision that appends is taken: its vectors are new, and no released one changes."""
    code = main(["--write", "--root", str(released_root)])
    assert (code, capsys.readouterr().out[:200]) == (0, f"golden: {released_root} is written\n")
    assert main(["--check", "--root", str(released_root)]) == 0
    made = load(released_root)
    assert set(made.manifest["revisions"]) == {"1", "2", "3"}
    assert [*REVISIONS["2"], new_field(since=3)] == made.manifest["revisions"]["3"][:11]
    for vector in GOLDEN.payloads:
        assert digest(vector, 2) == digest(made.payload(vector.id), 2)
    golden = made.payload("rev3-golden-a")
    assert golden.engine == 3
    read = {n: v.revision for n, v in golden.readers.items() if isinstance(v, Accept)}
    assert {"1": 1, "2": 2, "3": 3} == read
    old = made.payload("rev2-golden-a").readers["3"]
    assert isinstance(old, Accept)
    assert old.revision == 2


def test_partial_tail_of_an_appended_revision(
    released_root: Path, revision_3: type[wire.LoadStatRev2]
) -> None:
    """What was an unknown element to older readers is a count to newer ones, and judged as one."""
    assert main(["--write", "--root", str(released_root)]) == 0
    verdict = load(released_root).payload("tail-float-64").readers["3"]
    content = msgspec.to_builtins(verdict)
    if revision_3 is LoadStatRev3:
        assert ("reject", "bad-type", 11) == tuple(
            content[key] for key in ("verdict", "reason", "element")
        )
    else:
        assert content["policy"] == Policy.PARTIAL_TAIL
        assert ("accept", 2) == tuple(
            content["outcomes"]["older"][k] for k in ("verdict", "revision")
        )
        assert content["outcomes"]["partial"]["reason"] == "bad-type"


@pytest.mark.parametrize(("old", "new", "sentence"), SOURCE_CHANGES)
def test_source_change(released_root: Path, old: str, new: str, sentence: str) -> None:
    """Whoever edits the structs is told by the command itself, before anything is written."""
    tree = released_root.parent
    shutil.copytree(PACKAGE, tree / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    source = tree / PACKAGE.name / "wire.py"
    text = source.read_text("utf-8")
    assert text.count(old) == 1
    source.write_text(text.replace(old, new), "utf-8")
    before = content(released_root)
    done = subprocess.run(
        [sys.executable, "-m", "pytest_loadwire.golden", "--write"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (1, "") == (done.returncode, done.stderr)
    assert sentence in done.stdout
    assert before == content(released_root)
