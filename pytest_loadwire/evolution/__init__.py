"""What a change of the contract does to those who speak it.

`snapshot` and `git_tree` read a golden folder of any age, `idioms` models the decoders that are out
there, `rollout` has old and new meet, and `breaking` grades what changed.
"""
