"""Making, proving and freezing ``golden/``.

``python -m pytest_loadwire.golden --check`` compares, ``--write`` rewrites. The modules from the
bottom: `spell` (every spelling of a value), `shape` (a payload by its parts, and its verdicts),
`payloads`, `rejects` and `frames` (the families), `build` (the files), `proofs` (witnesses and
sensitivity), `freeze` (what was released stays), `rust_table` (the same vectors as Rust data).
"""
