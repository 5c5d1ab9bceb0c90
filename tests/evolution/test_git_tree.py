"""Golden folders of git revisions, read without a checkout."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from states import commit, git

from pytest_loadwire import vectors
from pytest_loadwire.evolution import git_tree, snapshot
from pytest_loadwire.evolution.git_tree import GitError, read_tree

MANIFEST = {"format": 1, "revisions": {"1": [{"name": "num_running_reqs"}]}, "files": {}}


def write_golden(folder: Path, name: str = "num_running_reqs") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {**MANIFEST, "revisions": {"1": [{"name": name}]}}
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def field(files: dict[str, bytes]) -> str:
    """The one field that tells the commits apart."""
    name: str = json.loads(files["manifest.json"])["revisions"]["1"][0]["name"]
    return name


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits, `first` and `second`, each with another field in its golden folder."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    top = tmp_path / "repository"
    write_golden(top / "golden", "first")
    (top / "web").mkdir()
    (top / "web" / "manifest.json").write_text('{"name": "a web page\'s"}', "utf-8")
    git(top, "init", "-q", "-b", "main")
    commit(top, "first")
    git(top, "tag", "v0.1.0")
    write_golden(top / "golden", "second")
    commit(top, "second")
    return top


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v0.1.0", "first"),
        ("HEAD", "second"),
        ("HEAD~1", "first"),
        ("main", "second"),
        ("main:golden", "second"),
        ("main:golden/", "second"),
        ("main:./golden", "second"),
        ("v0.1.0^{commit}", "first"),
    ],
)
def test_revision(repository: Path, name: str, expected: str):
    """Any spelling of a commit that git knows is one; the folder is found by its manifest."""
    tree = read_tree(name, repository)

    assert (expected, "golden") == (field(tree.files), tree.path)
    assert git(repository, "rev-parse", tree.commit).startswith(tree.commit)


def test_nothing_is_touched(repository: Path):
    """A tree with uncommitted work stays as it is, and what is read is the commit's."""
    write_golden(repository / "golden", "not-committed")
    before = git(repository, "status", "--porcelain")

    assert "first" == field(read_tree("HEAD~1", repository).files)
    assert "second" == field(read_tree("HEAD", repository).files)
    assert (before, ["golden/manifest.json"]) == (
        git(repository, "status", "--porcelain"),
        git_tree.changed("golden", repository),
    )
    assert "not-committed" in (repository / "golden" / "manifest.json").read_text("utf-8")


def test_below_the_top(repository: Path):
    """From a folder below, paths are the repository's, and with a dot in front those of here."""
    below = repository / "web"

    assert "second" == field(read_tree("HEAD", below).files)
    assert "second" == field(read_tree("HEAD:golden", below).files)
    assert "second" == field(read_tree("HEAD:../golden", below).files)
    with pytest.raises(GitError, match=r"web/golden has no manifest\.json"):
        read_tree("HEAD:./golden", below)


def test_several_folders(repository: Path):
    """One that is called golden wins; without it, several are listed to choose from."""
    write_golden(repository / "a")
    commit(repository, "another")
    assert "golden" == read_tree("HEAD", repository).path

    git(repository, "mv", "golden", "b")
    commit(repository, "moved")
    with pytest.raises(GitError) as caught:
        read_tree("HEAD", repository)
    assert "'HEAD' has 2 golden folders; say which: HEAD:a or HEAD:b" == str(caught.value)
    assert "second" == field(read_tree("HEAD:b", repository).files)

    git(repository, "rm", "-rq", "a")
    commit(repository, "one")
    assert "b" == read_tree("HEAD", repository).path


def test_at_the_top(repository: Path):
    """A repository may be a golden folder itself."""
    git(repository, "rm", "-rq", "golden", "web")
    write_golden(repository, "at-the-top")
    commit(repository, "flat")

    tree = read_tree("HEAD", repository)

    assert ("at-the-top", ".") == (field(tree.files), tree.path)
    assert "at-the-top" == field(read_tree("HEAD:.", repository).files)


BAD_NAMES = [
    ("nobody", "no revision 'nobody' in this repository: neither a folder nor"),
    ("--help", "no revision '--help' in this repository: no name of a revision begins with '-'"),
    ("--output=x", "no revision '--output=x' in this repository: no name of a revision begins"),
    ("-", "no revision '-' in this repository: no name of a revision begins with '-'"),
    ("", "no revision '' in this repository: a branch, a tag or a commit is expected"),
    (":golden", "no revision '' in this repository: a branch, a tag or a commit is expected"),
    ("HEAD~7", "no revision 'HEAD~7' in this repository"),
    ("HEAD;id", "no revision 'HEAD;id' in this repository"),
    ("HEAD --all", "no revision 'HEAD --all' in this repository"),
    ("HEAD:nowhere", "'HEAD:nowhere': nowhere has no manifest.json in "),
    ("HEAD:../outside", "'HEAD:../outside': ../outside has no manifest.json in "),
    ("v0.1.0:web/manifest.json", "'v0.1.0:web/manifest.json': web/manifest.json has no manifest"),
]


@pytest.mark.parametrize(("name", "says"), BAD_NAMES)
def test_bad_name(repository: Path, name: str, says: str):
    """What is no revision is refused by name, and never taken for an option of git."""
    before = sorted(repository.rglob("*"))

    with pytest.raises(GitError) as caught:
        read_tree(name, repository)

    assert str(caught.value).startswith(says)
    assert before == sorted(repository.rglob("*"))


def test_no_golden_folder(repository: Path):
    """A commit from before there were vectors has none; another program's manifest is none."""
    git(repository, "rm", "-rq", "golden")
    commit(repository, "gone")

    with pytest.raises(GitError, match=r"'HEAD' has no golden folder: no manifest\.json with"):
        read_tree("HEAD", repository)


def test_links_are_no_files(repository: Path):
    """A link in a golden folder is not followed, wherever it points."""
    (repository / "golden" / "frames.json").symlink_to("/etc/passwd")
    commit(repository, "link")

    assert ["manifest.json"] == list(read_tree("HEAD", repository).files)


def test_shallow(repository: Path, tmp_path: Path):
    """A clone without its history says what to fetch."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", clone)

    assert "second" == field(read_tree("HEAD", clone).files)
    with pytest.raises(GitError) as caught:
        read_tree("v0.1.0", clone)
    assert (
        "no revision 'v0.1.0' in this repository, which is a shallow clone: fetch the history and"
        " the tags first (git fetch --unshallow --tags; fetch-depth: 0 for actions/checkout)"
    ) == str(caught.value)


def test_missing_content(repository: Path):
    """A repository that lacks a file's content says so."""
    blob = git(repository, "rev-parse", "HEAD:golden/manifest.json")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(GitError, match=f"git has no content for {blob} missing; is this a partial"):
        read_tree("HEAD", repository)


def test_bare(repository: Path, tmp_path: Path):
    """A repository without a working tree has revisions as well."""
    bare = tmp_path / "bare"
    git(tmp_path, "clone", "-q", "--bare", repository, bare)

    assert "first" == field(read_tree("v0.1.0", bare).files)
    with pytest.raises(GitError, match="is in no working tree of git"):
        git_tree.top(bare)


def test_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Outside of a repository a name can only be a folder."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    with pytest.raises(GitError, match=r"'v1' is no folder, and .* is in no repository of git"):
        read_tree("v1", tmp_path)
    assert "the vectors of this package" == snapshot.read_current(tmp_path).label


def test_no_git(repository: Path, monkeypatch: pytest.MonkeyPatch):
    """Without git folders are compared, and a revision is refused with the reason."""
    monkeypatch.setenv("PATH", str(repository))

    with pytest.raises(GitError, match="git is not on PATH, so only folders can be compared"):
        read_tree("HEAD", repository)
    assert "golden" == snapshot.read("golden", repository).label


class TestCurrent:
    """The state that others are compared with, unless another is given."""

    def test_clean(self, repository: Path) -> None:
        """The working tree's folder, from anywhere in it."""
        for cwd in (repository, repository / "web"):
            current = snapshot.read_current(cwd)
            assert "golden in the working tree, as committed" == current.label
            assert "second" == current.revisions[1][0]["name"]

    def test_dirty(self, repository: Path) -> None:
        """With edits that nobody committed, which it says."""
        write_golden(repository / "golden", "third")
        (repository / "golden" / "new.json").write_text("{}", "utf-8")

        current = snapshot.read_current(repository)

        assert "golden in the working tree, 2 files not committed" == current.label
        assert "third" == current.revisions[1][0]["name"]

    def test_broken(self, repository: Path) -> None:
        """A working tree whose folder is broken is not passed over for the package's."""
        (repository / "golden" / "manifest.json").write_text("{", "utf-8")

        with pytest.raises(snapshot.SnapshotError, match=r"manifest\.json is no JSON"):
            snapshot.read_current(repository)

    def test_another_repository(self, repository: Path) -> None:
        """A repository without a golden folder is compared with the package's."""
        git(repository, "rm", "-rq", "golden")

        assert "the vectors of this package" == snapshot.read_current(repository).label
        assert len(vectors.load().payloads) < len(snapshot.read_current(repository).vectors)


def test_a_folder_wins(repository: Path):
    """A folder and a branch of the same name: the folder is meant; a file is neither."""
    git(repository, "branch", "golden")
    write_golden(repository / "golden", "on-disk")

    assert "on-disk" == snapshot.read("golden", repository).revisions[1][0]["name"]
    assert "second" == snapshot.read("golden:golden", repository).revisions[1][0]["name"]
    with pytest.raises(snapshot.SnapshotError, match="is a file; a golden folder or a git"):
        snapshot.read("web/manifest.json", repository)
