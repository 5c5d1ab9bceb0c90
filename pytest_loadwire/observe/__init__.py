"""Live load sockets, watched and judged: what ``loadwire check TARGET`` is made of.

``asking`` asks a worker what it advertises, ``tap`` listens
and fills the records of ``link`` and ``stream``, ``findings`` judges them by rule, ``diagnosis``
says why a socket is silent, and ``keep`` makes vectors of what was seen. Only ``asking``, ``tap``
and ``peer`` open sockets.
"""
