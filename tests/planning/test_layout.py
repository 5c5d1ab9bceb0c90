"""Who publishes, by the sizes of an engine, and on which machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_loadwire.planning.launch_args import parse_worker
from pytest_loadwire.planning.layout import Layout

# The flags, how many ranks publish, and who publishes for the last one.
PUBLISHERS = [
    ("", 1, "tp rank 0"),
    ("--tp 8", 1, "tp rank 0"),
    ("--dp 4", 4, "replica 3, tp rank 0"),
    ("--dp 4 --tp 8 --enable-dp-attention", 4, "attention group 3, tp rank 6"),
    ("--attn-dp-size 8 --tp 8", 8, "attention group 7, tp rank 7"),
    ("--attn-dp-size 2 --attn-cp-size 2 --tp 8", 2, "attention group 1, tp rank 4"),
    # The flag adds nothing where the groups are counted already.
    ("--attn-dp-size 2 --tp 4 --enable-dp-attention", 2, "attention group 1, tp rank 2"),
    ("--enable-dp-attention --tp 4", 1, "tp rank 0"),
]
# The flags, and the ranks on each machine.
MACHINES = [
    ("--dp 8 --tp 16 --enable-dp-attention --nnodes 2", [range(4), range(4, 8)]),
    (
        "--dp 2 --tp 16 --enable-dp-attention --nnodes 4",
        [range(1), range(0), range(1, 2), range(0)],
    ),
    ("--tp 16 --nnodes 2", [range(1), range(0)]),
    ("--tp 8 --pp-size 2 --nnodes 2", [range(1), range(0)]),
    ("--dp 4 --tp 8 --pp-size 2 --nnodes 2 --enable-dp-attention", [range(4), range(0)]),
    ("--dp 4 --tp 8 --pp-size 2 --nnodes 4 --enable-dp-attention", [range(2), range(2, 4), (), ()]),
    ("--dp 4 --tp 8 --pp-size 4 --nnodes 2 --enable-dp-attention", [range(4), range(0)]),
]
PROBLEMS = [
    ("--dp 2 --attn-dp-size 2 --tp 2", "--dp-size 2 with --attn-dp-size 2: replicas and attention"),
    ("--dp 2 --enable-dp-attention", "--tp-size 1 cannot be divided into 2 attention groups"),
    ("--attn-dp-size 2 --attn-cp-size 4 --tp 4", "2 attention groups of context parallelism 4"),
    ("--dp 2 --tp 2 --nnodes 2", "--dp-size 2 across --nnodes 2: replicas stay on one machine"),
    ("--tp 3 --nnodes 2", "--tp-size 3 times --pp-size 1 cannot be divided among --nnodes 2"),
]


def layout(flags: str) -> Layout:
    return Layout.of(parse_worker(flags.split()))


@pytest.mark.parametrize(("flags", "size", "who"), PUBLISHERS)
def test_publishers(flags: str, size: int, who: str) -> None:
    """R1, R2: one scheduler publishes for each KV cache."""
    found = layout(flags)
    assert (size, who) == (found.dp_size, found.publisher(range(size - 1, size)))
    assert [] == found.problems
    assert range(size) == found.ranks_on(0)


@pytest.mark.parametrize(
    ("flags", "who"),
    [
        ("--dp 4", "replicas 1 to 3, tp rank 0"),
        ("--attn-dp-size 4 --tp 4", "attention groups 1 to 3, first tp rank of each"),
    ],
)
def test_several_publishers(flags: str, who: str) -> None:
    """Several ranks are named as a range."""
    assert who == layout(flags).publisher(range(1, 4))


@pytest.mark.parametrize(("flags", "machines"), MACHINES)
def test_machines(flags: str, machines: list[range]) -> None:
    """A rank is on the machine that has the first tensor rank of its group, in the first stage."""
    found = layout(flags)
    assert [list(ranks) for ranks in machines] == [
        list(found.ranks_on(node)) for node in range(found.nnodes)
    ]
    assert [] == found.problems


@given(
    groups=st.sampled_from([1, 2, 4, 8]),
    group_size=st.sampled_from([1, 2, 4]),
    pp_size=st.sampled_from([1, 2, 4]),
    nnodes=st.sampled_from([1, 2, 4]),
)
def test_every_rank_once(groups: int, group_size: int, pp_size: int, nnodes: int) -> None:
    """Whatever the sizes, each rank is on one machine."""
    if groups * group_size < nnodes:
        return
    found = Layout(1, groups, groups * group_size, 1, pp_size, nnodes)
    everywhere = [rank for node in range(nnodes) for rank in found.ranks_on(node)]
    assert list(range(groups)) == everywhere


@pytest.mark.parametrize(("flags", "problem"), PROBLEMS)
def test_problems(flags: str, problem: str) -> None:
    """A layout that SGLang refuses says which sizes do not go together."""
    (text,) = layout(flags).problems
    assert problem in text
