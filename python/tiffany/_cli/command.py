"""The commands ``tiffany`` and ``python -m tiffany``. Rust parses the command line; this module
handles Python files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from types import ModuleType, TracebackType
from typing import Any, Literal, cast

import tiffany
from tiffany import _core
from tiffany._arguments import close_unbegun
from tiffany._cli import captured as _captured
from tiffany._cli import program_file as _program_file
from tiffany._cli.asking import Asking
from tiffany._cli.program_file import ProgramFileError
from tiffany._settings import DEFAULTS, RuntimeSettings, core_settings
from tiffany.durable import _workflows
from tiffany.errors import TiffanyError

# Tells the replaced process that the seed of hashes has been set.
_GUARD = "TIFFANY_HASH_SEED_SET_BY"


def main() -> int:
    """Runs the command given by the process's arguments and returns the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Most commands run no Python code: they end on a signal as any program does.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core._command_line(["tiffany", *sys.argv[1:]], Host())


class Host:
    """The functions that the command line needs from Python."""

    def run(
        self,
        *,
        program: str,
        arguments: list[str],
        wal: str | os.PathLike[str] | None,
        id: str | None,
        env: dict[str, str],
        json: bool,
        questions: Literal["ask", "deny", "wait"],
    ) -> int:
        """Runs a program from a file, prints its value, and returns the exit code."""
        fix_hash_seed()
        listen()
        try:
            file, name = _program_file.split(program)
            module = _program_file.load(file, arguments)
            function = _program_file.find(module, name)
            given = [parsed(text) for text in arguments] if json else arguments
            started = _program_file.call(function, name, given)
            env_given = {key: parsed(text) if json else text for key, text in env.items()}
            settings = _settings(module, env_given)
            settings["wal"] = wal
            asking = Asking(questions)
            show(run_asking(started, asking, id, settings), json)
            asking.tell_if_denied()
        except SystemExit as ended:
            return exit_code(ended)
        except KeyboardInterrupt:
            if id is not None and not json:
                print(
                    f"interrupted; run {id!r} continues when it is started again", file=sys.stderr
                )
            return 128 + signal.SIGINT
        except BaseException as error:
            if json or isinstance(error, ProgramFileError) or not tell(error):
                raise
            return 1
        return 0

    def app(self, file: str) -> dict[str, Any]:
        """Returns the settings of a runtime with the functions of a file or of a module."""
        fix_hash_seed()
        listen()
        try:
            module, named = _program_file.load_app(file)
        except KeyboardInterrupt:
            message = f"loading {file!r} was interrupted"
            next_step = "start the command again"
            code = 128 + signal.SIGINT
            raise ProgramFileError("TFY0074", message, next_step, exit_code=code) from None
        except (Exception, SystemExit) as error:
            if isinstance(error, ProgramFileError):
                raise
            tell(error)
            message = f"loading {file!r} ended with {type(error).__name__}"
            raise ProgramFileError("TFY0074", message, "fix the file") from None
        settings = _named_settings(file, named) if named is not None else _settings(module, {})
        return core_settings(_workflows.Functions(settings.get("workflows", ())), settings)

    def test(
        self, *, app: str, out: str | os.PathLike[str], name: str, fixture: str, made_by: str
    ) -> tuple[str, str, str]:
        """Returns the test of a captured run: its file, its contents, and the command that runs it."""
        return _captured.test(app, out, name, fixture, made_by)

    def again(self) -> list[str]:
        """Returns the command that starts this process again."""
        return [sys.executable, *sys.orig_argv[1:]]


def run_asking(
    program: Any,
    asking: Asking,
    id: str | None,
    settings: RuntimeSettings,
) -> Any:
    """Runs a program as ``tiffany.run`` does, and handles the questions that it asks people."""
    try:
        runtime = tiffany.Runtime(**settings)
    except BaseException:
        close_unbegun(program)
        raise
    # The order matters: the thread that looks for questions must stop once the runtime is closed.
    with asking.of(runtime.handle), runtime:
        return runtime.run(program, id=id)


def _settings(module: ModuleType, env: dict[str, Any]) -> RuntimeSettings:
    """Returns the runtime settings of a file, from ``tiffany_settings``, and the environment given
    on the command line.
    """
    given = getattr(module, "tiffany_settings", {})
    wrong = [key for key in given if key not in DEFAULTS] if isinstance(given, dict) else [given]
    if wrong:
        message = f"`tiffany_settings` has {wrong[0]!r}, which is not a setting of a runtime"
        next_step = "make it a dict with keyword arguments of `tiffany.Runtime`"
        raise ProgramFileError("TFY0074", message, next_step)
    settings = cast(RuntimeSettings, {**given})
    settings["env"] = {**(given.get("env") or {}), **env}
    return settings


def _named_settings(app: str, named: Any) -> RuntimeSettings:
    """Returns the runtime settings that ``package.module:name`` names: those of an `AsyncRuntime`, a
    dict, or a workflow alone. The command says where the log is.
    """
    if isinstance(named, tiffany.AsyncRuntime):
        named = named.settings
    elif callable(named):
        named = {"workflows": [named]}
    if not isinstance(named, dict):
        message = f"`{app}` is a `{type(named).__name__}`"
        next_step = "name an `AsyncRuntime`, a dict of settings, or a workflow of the module"
        raise ProgramFileError("TFY0071", message, next_step)
    holder = ModuleType(app)
    holder.__dict__["tiffany_settings"] = {key: named[key] for key in named if key != "wal"}
    return _settings(holder, {})


def fix_hash_seed() -> None:
    """Restarts this process once with the hash seed 0, so that sets have the same order in every
    process.
    """
    been = os.environ.pop(_GUARD, None) == str(os.getpid())
    if been or not sys.flags.hash_randomization or not sys.executable:
        return
    os.environ.update({"PYTHONHASHSEED": "0", _GUARD: str(os.getpid())})
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def listen() -> None:
    """Restores Python's handler for Ctrl-C, and treats SIGTERM in the same way."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _core._on_signal)


def parsed(text: str) -> Any:
    """Parses JSON from the command line.

    >>> parsed("[1, 2]")
    [1, 2]
    """
    try:
        return json.loads(text)
    except ValueError as error:
        message = f"`{text}` is not JSON: {error}"
        next_step = (
            'texts and names need quotation marks of their own: \'"tea"\', \'{"item": "tea"}\''
        )
        raise ProgramFileError("TFY0064", message, next_step, exit_code=2) from None


def show(value: Any, as_json: bool) -> None:
    """Prints the value of a program, unless it is ``None``."""
    try:
        if as_json:
            print(_core.encode(value))
        elif value is not None:
            print(value)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. The rest of the buffer must not cause an error at the end
        # of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_code(ended: SystemExit) -> int:
    """Returns the exit code of a process that ends with this exception.

    >>> exit_code(SystemExit()), exit_code(SystemExit(3))
    (0, 3)
    """
    if ended.code is None:
        return 0
    if isinstance(ended.code, int):
        return ended.code & 0xFF
    print(ended.code, file=sys.stderr)
    return 1


def tell(error: BaseException) -> bool:
    """Prints an exception of the program with its traceback. Returns ``False`` if no line of it
    belongs to the program.
    """
    lines = own(error.__traceback__)
    if lines is None and isinstance(error, TiffanyError):
        return False
    shown = "".join(traceback.format_exception(error.with_traceback(lines)))
    print(_core._redacted(shown), end="", file=sys.stderr)
    return True


def own(lines: TracebackType | None) -> TracebackType | None:
    """Removes the leading frames of this package from a traceback."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    while lines is not None and lines.tb_frame.f_code.co_filename.startswith(package):
        lines = lines.tb_next
    return lines
