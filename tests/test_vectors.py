"""The golden vectors as typed records."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_loadwire import vectors
from pytest_loadwire.errors import LoadwireError
from pytest_loadwire.rules import Hazard, Policy, Reason
from pytest_loadwire.vectors import Accept, Declare, GoldenError, Reject, load

# file, text to replace, replacement, what the error says
DAMAGE = [
    ("payloads.json", '"format": 1', '"format": 2', "$.format"),
    ("payloads.json", '"since": 1', '"since": "1"', "`$.vectors[0].since`"),
    ("payloads.json", '"verdict": "accept"', '"verdict": "maybe"', "Invalid value 'maybe'"),
    ("payloads.json", '"reason": "truncated"', '"reason": "cut"', "Invalid enum value 'cut'"),
    ("payloads.json", '"hazard": "crash"', '"hazard": "boom"', "Invalid enum value 'boom'"),
    ("payloads.json", '"policy": "NilTail"', '"policy": "Nil"', "Invalid enum value 'Nil'"),
    ("payloads.json", '"kind": "golden"', '"kind": "silver"', "Invalid enum value 'silver'"),
    ("payloads.json", '   "hex": "96', '   "hax": "96', "missing required field `hex`"),
    ("payloads.json", "{", "[", " is no JSON: JSON is malformed"),
    ("frames.json", '   "frames": [', '   "frame": [', "missing required field `frames`"),
    ("manifest.json", '"content_hash"', '"contents_hash"', "missing required field `content_hash`"),
    ("manifest.json", '"files"', '"folders"', "missing required field `files`"),
    ("manifest.json", '"sha256"', '"sha512"', "missing required field `sha256`"),
    ("manifest.json", '"name"', '"title"', "missing required field `name`"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(vectors.folder(), tmp_path / "golden"))


def test_folder() -> None:
    """The vectors of a source checkout stand beside the package."""
    package = Path(vectors.__file__).parents[1]
    assert vectors.folder() in (package / "_golden", package.parent / "golden")


def test_folder_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a wheel stand inside the package, and come first."""
    (tmp_path / "package" / "_golden").mkdir(parents=True)
    (tmp_path / "golden").mkdir()
    module = tmp_path / "package" / "vectors" / "__init__.py"
    monkeypatch.setattr(vectors, "__file__", str(module))
    with pytest.raises(GoldenError, match=r"no golden vectors beside the package in .*package"):
        vectors.folder()
    (tmp_path / "golden" / "manifest.json").touch()
    assert tmp_path / "golden" == vectors.folder()
    (tmp_path / "package" / "_golden" / "manifest.json").touch()
    assert tmp_path / "package" / "_golden" == vectors.folder()


def test_read_once() -> None:
    """The vectors are read once a process, however the folder is spelled."""
    root = vectors.folder()
    assert load() is load(root)
    assert load() is load(root / ".." / root.name)


def test_lookup() -> None:
    """A vector is found by its id, and the error for another id names it."""
    golden = load()
    assert golden.payload("rev1-golden-a").id == "rev1-golden-a"
    assert golden.frame("frames-rev1-golden-a").id == "frames-rev1-golden-a"
    with pytest.raises(KeyError, match="no vector 'frames-rev1-golden-a' among"):
        golden.payload("frames-rev1-golden-a")
    with pytest.raises(KeyError, match="no vector 'rev1-golden-a' among"):
        golden.frame("rev1-golden-a")


def test_content_hash() -> None:
    """The hash over all files is that of the manifest."""
    golden = load()
    assert golden.manifest["content_hash"] == golden.content_hash
    assert len(golden.content_hash) == 64


def test_accept() -> None:
    """Decimal strings are ints, nil is None, and a field that was not sent is not there."""
    verdict = load().payload("rev1-anchor-idle-nil-rank").readers["2"]
    assert isinstance(verdict, Accept)
    expected = {
        "num_running_reqs": 0,
        "num_waiting_reqs": 0,
        "num_tokens": 0,
        "max_total_num_tokens": 0,
        "attn_dp_rank": None,
    }
    assert expected == verdict.reading
    assert (1, None) == (verdict.revision, verdict.sequence)


def test_largest_count() -> None:
    """No digit of the largest count is lost."""
    verdict = load().payload(f"rev2-total-prefill-busy-us-{2**64 - 1}").readers["2"]
    assert isinstance(verdict, Declare)
    taken = verdict.outcomes["accept"]
    assert isinstance(taken, Accept)
    assert taken.reading["total_prefill_busy_us"] == 2**64 - 1


def test_reject() -> None:
    """A refusal has its codes as enums."""
    expected = Reject("W5", Reason.BAD_TYPE, 10, 1, Hazard.ATTRACTS_ALL, None)
    assert expected == load().payload("rev1-num-running-reqs-nil").readers["1"]


def test_declare() -> None:
    """A policy has an outcome for each answer."""
    verdict = load().payload("rev1-trailing-nil").readers["1"]
    assert isinstance(verdict, Declare)
    assert verdict.policy is Policy.TRAILING_BYTES
    assert {"accept": Accept, "reject": Reject} == {k: type(v) for k, v in verdict.outcomes.items()}


def test_forms() -> None:
    """The forms of a payload are its own bytes and each other spelling, by name."""
    vector = load().payload("rev1-spelled-headers")
    forms = dict(vector.forms())
    assert vector.payload == forms["rev1-spelled-headers"]
    assert forms["rev1-spelled-headers/array-16"] == b"\xdc\x00\x06" + vector.payload[1:]
    assert len(forms) == 1 + len(vector.spellings)


def test_parts() -> None:
    """A frame vector has its frames as bytes, and the sequence it carries."""
    vector = load().frame("frames-sequence-7")
    topic, sequence, payload = vector.parts
    assert (b"load", bytes(7) + b"\x07") == (topic, sequence)
    assert load().payload("rev2-golden-a").payload == payload
    verdict = vector.readers["2"]
    assert isinstance(verdict, Accept)
    assert verdict.sequence == "7"


@pytest.mark.parametrize("name", ["payloads.json", "frames.json", "manifest.json"])
def test_missing_file(copy: Path, name: str) -> None:
    """A file that is not there is named."""
    (copy / name).unlink()
    with pytest.raises(GoldenError, match=rf"{name}: No such file") as caught:
        load(copy)
    assert isinstance(caught.value, LoadwireError)


@pytest.mark.parametrize(("name", "old", "new", "says"), DAMAGE)
def test_damaged_file(copy: Path, name: str, old: str, new: str, says: str) -> None:
    """A file of another form is refused, by file and place."""
    text = (copy / name).read_text("utf-8")
    assert old in text
    (copy / name).write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(GoldenError) as caught:
        load(copy)
    assert str(copy / name) in str(caught.value)
    assert says in str(caught.value)


def test_not_utf_8(copy: Path) -> None:
    """A file that is no text is refused like any other damage."""
    raw = (copy / "payloads.json").read_bytes()
    (copy / "payloads.json").write_bytes(raw.replace(b"every slot", b"\xff\xfe", 1))
    with pytest.raises(GoldenError, match=r"payloads\.json is no JSON: "):
        load(copy)


@pytest.mark.parametrize(
    "change", [lambda v: setattr(v, "hex", ""), lambda v: setattr(v, "engine", None)]
)
def test_frozen(change: Callable[[object], None]) -> None:
    """No test changes a vector for the next one."""
    with pytest.raises(AttributeError):
        change(load().payload("rev1-golden-a"))


def test_what_is_missing_or_broken_is_made_again_by(copy: Path) -> None:
    """The error names the file, says what is no JSON, and names the command that mends it."""
    again = f"; `loadwire golden --write --root {copy.resolve()}` makes it again"
    file = copy.resolve() / "payloads.json"
    file.write_text("[", "utf-8")
    with pytest.raises(GoldenError) as broken:
        load(copy)
    file.unlink()
    with pytest.raises(GoldenError) as missing:
        load(copy)
    assert str(broken.value).startswith(f"{file} is no JSON: ")
    assert str(broken.value).endswith(again)
    assert f"{file}: No such file or directory{again}" == str(missing.value)


def test_what_a_wheel_lacks_is_installed_anew(copy: Path) -> None:
    """The files of an installed package are not made again, as no command writes there."""
    installed = copy.rename(copy.with_name("_golden"))
    (installed / "frames.json").unlink()
    with pytest.raises(GoldenError, match=r"; installing pytest-loadwire anew brings it back$"):
        load(installed)


def test_repr() -> None:
    """Where a failed test shows the vectors, it shows one line."""
    golden = load()
    counts = f"{len(golden.payloads)} payloads, {len(golden.frames)} frames, "
    assert f"<Golden of {golden.root}: {counts}" in repr(golden)
    assert len(repr(golden)) < 250 + len(str(golden.root))
