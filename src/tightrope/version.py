"""The package's version, alone so that every module may import it."""

__version__ = "0.3.0"
