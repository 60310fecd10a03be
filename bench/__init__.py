"""Benches: what tracing costs and how fast answers come, always beside a baseline of the same run.

`python -m bench list`, `python -m bench NAME [--smoke] [--json]`. Each bench is a module with one function that yields
measurements; it calls whence as users do. Whether answers are right is not asked here, the tests do that.
"""
