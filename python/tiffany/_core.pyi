"""The compiled part of tiffany. Programs import ``tiffany``."""

from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Sequence,
)
from datetime import datetime, timedelta
from types import GenericAlias, ModuleType, TracebackType
from typing import Any, Generic, Protocol, Self, TypeAlias, final, overload
from uuid import UUID

from typing_extensions import ParamSpec, TypeVar, disjoint_base

__version__: str
_net: ModuleType

_T = TypeVar("_T", default=Any)
_T_co = TypeVar("_T_co", covariant=True, default=Any)
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_D = TypeVar("_D")
_P = ParamSpec("_P")

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

_Program: TypeAlias = Generator[Any, Any, _T_co] | Coroutine[Any, Any, _T_co] | Program[_T_co]
_Waitable: TypeAlias = Task[_T_co] | Future[_T_co]
_Seconds: TypeAlias = float | timedelta
_File: TypeAlias = int | _HasFileno
_Handler: TypeAlias = Callable[[SystemCall[Any], int], object]

@final
class Program(Generic[_T_co]):
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@disjoint_base
class SystemCall(Generic[_T_co]):
    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self: ...
    def __await__(self) -> Generator[Any, Any, _T_co]: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

# Calls without arguments.
@final
class Yield(SystemCall[None]):
    def __new__(cls) -> Self: ...

@final
class GetTid(SystemCall[int]):
    def __new__(cls) -> Self: ...

@final
class GetHandlers(SystemCall[list[Any]]):
    def __new__(cls) -> Self: ...

@final
class Now(SystemCall[float]):
    def __new__(cls) -> Self: ...

@final
class Random(SystemCall[float]):
    def __new__(cls) -> Self: ...

@final
class NewUuid(SystemCall[UUID]):
    def __new__(cls) -> Self: ...

# Tasks.
@final
class Spawn(SystemCall[Task[_T]]):
    def __new__(
        cls,
        program: _Program[_T],
        handlers: Sequence[_Handler] | None = None,
        *,
        name: str | None = None,
        priority: int = 0,
        group: Group | None = None,
    ) -> Self: ...
    @property
    def program(self) -> _Program[_T]: ...

@final
class NewTask(SystemCall[int]):
    def __new__(cls, program: _Program[Any]) -> Self: ...

@final
class Call(SystemCall[_T_co]):
    def __new__(cls, program: _Program[_T_co]) -> Self: ...

@final
class Wait(SystemCall[_T_co]):
    def __new__(cls, waitable: _Waitable[_T_co]) -> Self: ...
    @property
    def waitable(self) -> _Waitable[_T_co]: ...

@final
class Gather(SystemCall[_T_co]):
    @overload
    def __new__(cls) -> Gather[list[Any]]: ...
    @overload
    def __new__(cls, waitables: Iterable[_Waitable[_A]], /) -> Gather[list[_A]]: ...
    @overload
    def __new__(cls, first: _Waitable[_A], /) -> Gather[list[_A]]: ...
    @overload
    def __new__(  # pyright: ignore[reportOverlappingOverload]
        cls, first: _Waitable[_A], second: _Waitable[_B], /
    ) -> Gather[tuple[_A, _B]]: ...
    @overload
    def __new__(
        cls, first: _Waitable[_A], second: _Waitable[_B], third: _Waitable[_C], /
    ) -> Gather[tuple[_A, _B, _C]]: ...
    @overload
    def __new__(
        cls,
        first: _Waitable[_A],
        second: _Waitable[_B],
        third: _Waitable[_C],
        fourth: _Waitable[_D],
        /,
    ) -> Gather[tuple[_A, _B, _C, _D]]: ...
    @overload
    def __new__(cls, *waitables: _Waitable[_A]) -> Gather[list[_A]]: ...
    @property
    def waitables(self) -> list[_Waitable[Any]]: ...

@final
class GatherSettled(SystemCall[list[Ok[_T] | Err]]):
    @overload
    def __new__(cls, waitables: Iterable[_Waitable[_T]], /) -> Self: ...
    @overload
    def __new__(cls, *waitables: _Waitable[_T]) -> Self: ...
    @property
    def waitables(self) -> list[_Waitable[Any]]: ...

@final
class Race(SystemCall[RaceResult[_T]]):
    @overload
    def __new__(cls, waitables: Iterable[_Waitable[_T]], /) -> Self: ...
    @overload
    def __new__(cls, *waitables: _Waitable[_T]) -> Self: ...
    @property
    def waitables(self) -> list[_Waitable[Any]]: ...

@final
class Cancel(SystemCall[None]):
    def __new__(cls, task: Task[Any]) -> Self: ...
    @property
    def task(self) -> Task[Any] | None: ...

@final
class WaitTask(SystemCall[bool]):
    def __new__(cls, tid: int) -> Self: ...
    @property
    def tid(self) -> int: ...

@final
class KillTask(SystemCall[bool]):
    def __new__(cls, tid: int) -> Self: ...
    @property
    def tid(self) -> int: ...

@final
class Timeout(SystemCall[_T_co]):
    def __new__(cls, seconds: _Seconds, program: _Program[_T_co]) -> Self: ...

@final
class Blocking(SystemCall[_T_co]):
    def __new__(
        cls, function: Callable[_P, _T_co], *args: _P.args, **kwargs: _P.kwargs
    ) -> Self: ...

# Promises.
@final
class CreatePromise(SystemCall[Promise[Any]]):
    def __new__(cls) -> Self: ...

@final
class CompletePromise(SystemCall[None]):
    def __new__(cls, promise: Promise[_A], value: _A | None = None) -> Self: ...

@final
class FailPromise(SystemCall[None]):
    def __new__(cls, promise: Promise[Any], error: BaseException) -> Self: ...

@final
class CreateExternalPromise(SystemCall[ExternalPromise[Any]]):
    def __new__(cls) -> Self: ...

def complete_by_uuid(uuid: str | UUID, value: Any) -> bool: ...
def fail_by_uuid(uuid: str | UUID, error: BaseException) -> bool: ...

# Time and descriptors.
@final
class Sleep(SystemCall[None]):
    def __new__(cls, seconds: _Seconds) -> Self: ...
    @property
    def seconds(self) -> float: ...

@final
class SleepUntil(SystemCall[None]):
    def __new__(cls, when: float | datetime) -> Self: ...
    @property
    def when(self) -> float: ...

@final
class ReadWait(SystemCall[None]):
    def __new__(cls, file: _File) -> Self: ...
    @property
    def fd(self) -> int: ...

@final
class WriteWait(SystemCall[None]):
    def __new__(cls, file: _File) -> Self: ...
    @property
    def fd(self) -> int: ...

# The store and the environment.
@final
class Get(SystemCall[Any]):
    def __new__(cls, key: str, default: Any = None) -> Self: ...
    @property
    def key(self) -> str: ...

@final
class Put(SystemCall[None]):
    def __new__(cls, key: str, value: Any) -> Self: ...
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> Any: ...

@final
class Tell(SystemCall[None]):
    def __new__(cls, entry: Any) -> Self: ...
    @property
    def entry(self) -> Any: ...

@final
class GetLog(SystemCall[list[Any]]):
    def __new__(cls) -> Self: ...

@final
class Ask(SystemCall[Any]):
    def __new__(cls, key: str) -> Self: ...
    @property
    def key(self) -> str: ...

@final
class Charge(SystemCall[None]):
    def __new__(cls, cost: int) -> Self: ...
    @property
    def cost(self) -> int: ...

# Channels, locks, groups.
@final
class CreateChannel(SystemCall[Channel[Any]]):
    def __new__(cls, capacity: int | None = None) -> Self: ...

@final
class Send(SystemCall[None]):
    def __new__(cls, channel: Channel[_A], message: _A) -> Self: ...
    @property
    def message(self) -> Any: ...

@final
class Receive(SystemCall[_T]):
    def __new__(cls, channel: Channel[_T]) -> Self: ...

@final
class CreateSemaphore(SystemCall[Semaphore]):
    def __new__(cls, permits: int) -> Self: ...

@final
class CreateMutex(SystemCall[Mutex]):
    def __new__(cls) -> Self: ...

@final
class Acquire(SystemCall[Permit]):
    def __new__(cls, semaphore: Lock, permits: int = 1) -> Self: ...

@final
class CreateGroup(SystemCall[Group]):
    def __new__(cls) -> Self: ...

@final
class JoinGroup(SystemCall[None]):
    def __new__(cls, group: Group) -> Self: ...

# The commonest calls, as functions.
def yield_now() -> Yield: ...
def sleep(seconds: _Seconds) -> Sleep: ...
def spawn(
    program: _Program[_A],
    handlers: Sequence[_Handler] | None = None,
    *,
    name: str | None = None,
    priority: int = 0,
    group: Group | None = None,
) -> Spawn[_A]: ...
def wait(waitable: _Waitable[_A]) -> Wait[_A]: ...

# What calls give.
@final
class Task(Generic[_T_co]):
    @property
    def tid(self) -> int: ...
    @property
    def id(self) -> int: ...
    def cancel(self) -> Cancel: ...
    def __await__(self) -> Generator[Any, Any, _T_co]: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Future(Generic[_T_co]):
    @property
    def id(self) -> int: ...
    def __await__(self) -> Generator[Any, Any, _T_co]: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Promise(Generic[_T]):
    @property
    def id(self) -> int: ...
    @property
    def future(self) -> Future[_T]: ...
    def complete(self, value: _T | None = None) -> CompletePromise: ...
    def fail(self, error: BaseException) -> FailPromise: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class ExternalPromise(Generic[_T]):
    @property
    def id(self) -> int: ...
    @property
    def uuid(self) -> str: ...
    @property
    def future(self) -> Future[_T]: ...
    def complete(self, value: _T) -> bool: ...
    def fail(self, error: BaseException) -> bool: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class RaceResult(Generic[_T_co]):
    __match_args__ = ("first", "value", "rest")
    @property
    def first(self) -> _Waitable[_T_co]: ...
    @property
    def value(self) -> _T_co: ...
    @property
    def rest(self) -> list[_Waitable[_T_co]]: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class Ok(Generic[_T_co]):
    __match_args__ = ("value",)
    def __new__(cls, value: _T_co) -> Self: ...
    @property
    def value(self) -> _T_co: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Err:
    __match_args__ = ("error",)
    def __new__(cls, error: BaseException) -> Self: ...
    @property
    def error(self) -> BaseException: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Channel(Generic[_T]):
    def send(self, message: _T) -> Send: ...
    def receive(self) -> Receive[_T]: ...
    def close(self) -> None: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Awaitable[_T]: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@disjoint_base
class Lock:
    def acquire(self, permits: int = 1) -> Acquire: ...
    def __aenter__(self) -> Awaitable[Self]: ...
    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Awaitable[None]: ...

@final
class Semaphore(Lock): ...

@final
class Mutex(Lock): ...

@final
class Permit:
    def release(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class Group:
    def join(self) -> JoinGroup: ...
    def __aenter__(self) -> Awaitable[Self]: ...
    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Awaitable[None]: ...

# Handlers and settings.
@final
class Answer(Generic[_T_co]):
    def __new__(cls, value: _T_co | None = None) -> Self: ...
    @property
    def value(self) -> _T_co: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class Refuse:
    def __new__(cls, why: str) -> Self: ...
    @property
    def why(self) -> str: ...

@final
class Lazy:
    def __new__(cls, find: Callable[[], Any]) -> Self: ...

@final
class Runtime:
    def __new__(cls, settings: dict[str, Any]) -> Self: ...
    def run(self, program: _Program[_A]) -> _A: ...
    def close(self) -> None: ...

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
