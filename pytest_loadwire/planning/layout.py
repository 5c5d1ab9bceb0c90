"""Who publishes: an engine's ranks by the sizes that it was given, and the machine each is on.

Two spellings count data-parallel ranks. ``--dp-size N`` alone makes N replicas; with
``--enable-dp-attention``, or as ``--attn-dp-size N``, it makes N attention groups inside one tensor
group. Either way N schedulers publish, one for each KV cache (rules R1, R2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_loadwire.planning.launch_args import LaunchArgs


@dataclass(frozen=True)
class Layout:
    """The ranks of one engine.

    Attributes:
        replicas: Data-parallel replicas; above 1 only without attention groups.
        groups: Attention groups; above 1 only without replicas.
        tp_size: Tensor ranks of a stage.
        attn_cp_size: Context parallelism of the attention.
        pp_size: Pipeline stages.
        nnodes: Machines.
    """

    replicas: int = 1
    groups: int = 1
    tp_size: int = 1
    attn_cp_size: int = 1
    pp_size: int = 1
    nnodes: int = 1

    @classmethod
    def of(cls, args: LaunchArgs) -> Layout:
        """The layout that SGLang resolves the arguments to."""
        replicas, groups = args.dp_size, args.attn_dp_size
        if args.enable_dp_attention and groups == 1:
            replicas, groups = 1, replicas
        return cls(
            replicas=replicas,
            groups=groups,
            tp_size=args.tp_size,
            attn_cp_size=args.attn_cp_size,
            pp_size=args.pp_size,
            nnodes=args.nnodes,
        )

    @property
    def dp_size(self) -> int:
        """How many ranks publish, on all machines: the ``dp_size`` of ``/server_info``."""
        return self.replicas * self.groups

    @property
    def group_size(self) -> int:
        """How many tensor ranks share one KV cache."""
        return max(self.tp_size // self.groups, 1)

    def ranks_on(self, node: int) -> range:
        """The ranks whose publishing scheduler runs on one machine (rule R1).

        SGLang deals pipeline stages and then tensor ranks out to machines in order. A rank is
        published by the first tensor rank of its group in the first stage.
        """
        if self.nnodes == 1:
            return range(self.dp_size)
        nodes_per_stage = max(self.nnodes // self.pp_size, 1)
        if node // nodes_per_stage > 0:
            return range(0)
        tensor_ranks = max(self.tp_size // nodes_per_stage, 1)
        first, behind = tensor_ranks * node, tensor_ranks * (node + 1)
        start, stop = (-(-edge // self.group_size) for edge in (first, behind))
        return range(min(start, self.groups), min(stop, self.groups))

    def publisher(self, ranks: range) -> str:
        """The scheduler that publishes for a rank, or those for several (rules R1, R2)."""
        first, last = ranks[0], ranks[-1]
        if self.groups > 1 and first == last:
            return f"attention group {first}, tp rank {first * self.group_size}"
        if self.groups > 1:
            return f"attention groups {first} to {last}, first tp rank of each"
        if self.replicas > 1:
            which = f"replica {first}" if first == last else f"replicas {first} to {last}"
            return f"{which}, tp rank 0"
        return "tp rank 0"

    @property
    def problems(self) -> list[str]:
        """Why SGLang refuses this layout, before it looks at any port; empty where it does not."""
        texts = []
        if self.replicas > 1 and self.groups > 1:
            texts.append(
                f"--dp-size {self.replicas} with --attn-dp-size {self.groups}: replicas and "
                "attention groups cannot be combined"
            )
        if self.groups > 1 and self.tp_size % (self.groups * self.attn_cp_size):
            context = f" of context parallelism {self.attn_cp_size}" * (self.attn_cp_size > 1)
            texts.append(
                f"--tp-size {self.tp_size} cannot be divided into {self.groups} attention "
                f"groups{context}"
            )
        if self.replicas > 1 and self.nnodes > 1:
            texts.append(
                f"--dp-size {self.replicas} across --nnodes {self.nnodes}: replicas stay on one "
                "machine, only attention groups span several"
            )
        if self.tp_size * self.pp_size % self.nnodes:
            texts.append(
                f"--tp-size {self.tp_size} times --pp-size {self.pp_size} cannot be divided among "
                f"--nnodes {self.nnodes}"
            )
        return texts
