"""Decoders and engines that are wrong on purpose, to show that the contract catches them."""
