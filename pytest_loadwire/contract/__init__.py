"""Test classes that a team inherits to hold its own code to the contract.

They carry no ``Test`` prefix, so that importing one runs nothing: subclass it with a name that your
pytest collects, and answer its hooks.
"""
