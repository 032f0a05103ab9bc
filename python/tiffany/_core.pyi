from collections.abc import Callable
from typing import Any

__version__: str

class CodecError(TypeError):
    """A value that cannot be written down, or that cannot be read."""

    code: str
    path: str

class UnknownException(Exception):
    """Stands for an exception whose class is not here."""

    type_name: str
    message: str

def encode(value: object) -> str:
    """A value as JSON text, as the log has it."""

def decode(text: str) -> Any:
    """The value that a JSON text stands for."""

def encode_exception(exception: BaseException) -> str:
    """An exception as JSON text; what has no form in it is there as text."""

def decode_exception(text: str) -> BaseException:
    """The exception that was written down; an `UnknownException` if its class is not here."""

def codec_register(
    class_: type, name: str, encode: Callable[[Any], object], decode: Callable[[Any], object]
) -> None:
    """Teaches the codec a type."""

def codec_plug(codec: object) -> None:
    """Asks an object for values that JSON does not have."""

def codec_unplug(codec: object) -> bool:
    """Asks it no more; whether it was asked before."""
