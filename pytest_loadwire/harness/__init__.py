"""How foreign code is reached: live sockets, a seam in Python, a program, a shared library.

Import the module that you need; this package loads nothing by itself.
"""
