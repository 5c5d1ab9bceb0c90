"""The reference consumer: a table of readings, and the subscriber that fills it.

Imported by name (``pytest_loadwire.router.table``, ``pytest_loadwire.router.subscriber``), so that
whoever needs the table alone does not import zmq.
"""
