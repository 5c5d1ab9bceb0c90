"""Decoders as router authors write them, each a testee by its library's most obvious idiom."""
