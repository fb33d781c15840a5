"""Compile functions with numba: options, keys of the disk cache, memory that compiled code reads.

All code that depends on numba's internals is here; ``tests/test_compiled.py`` fails when they
change, and ``pyproject.toml`` has an upper bound on numba for that reason. ``functions`` compiles,
``keys`` makes a key of a function's text, ``memory`` describes blocks of memory.
"""
