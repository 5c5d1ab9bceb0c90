"""Which ports workers take, from their launch arguments.

`launch_args` reads them, `layout` says which schedulers publish, `worker` plans one worker, and
`cohosting` several on one machine.
"""
