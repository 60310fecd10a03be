"""SHOW: generated road traffic (`traffic`), and the guided tour that `whence demo` gives (`tour`).

A user like any other: it calls what users call. It is no benchmark and holds no tests.
"""
