"""The version of this distribution; sent with every request as X-SDK-Version."""

__version__ = "0.1.0"
