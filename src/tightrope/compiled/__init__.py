"""Compile functions with numba: options, keys of the disk cache, memory that compiled code reads.

All code that depends on numba's internals is here. ``tests/test_compiled.py`` fails when they
change, which is why ``pyproject.toml`` has an upper bound on numba. ``functions`` compiles,
``keys`` makes a key from a function's text, ``memory`` describes blocks of memory.
"""
