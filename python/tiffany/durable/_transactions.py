"""Transactional steps with `sqlite3` and `psycopg` connections: the changes of a step, its key and
its result are written in one transaction, so the step happens exactly once.

The table is the one of the Rust crates ``tiffany-sqlite`` and ``tiffany-postgres``. Neither driver
is imported here.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tiffany import _core
from tiffany._arguments import bad
from tiffany.errors import OtherKeyError, _InDoubt

Stage = Callable[[str, Any], None]
on_stage: Stage | None = None
"""Called between the stages of each attempt, for tests that end the process there."""


class Transact:
    """Executes a step in a transaction."""

    def __init__(self, db: Any, table: str) -> None:
        self._db, self._table = db, table

    def __call__(self, function: Any, attempt: Any, args: Any, kwargs: Any) -> str:
        """Executes the step and returns its encoded result."""
        with self._connection() as connection:
            one = _dialect(connection)(connection, self._table, attempt)
            one.prepare()
            return one.attempt(lambda: function(connection, *args, **(kwargs or {})))

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        if hasattr(self._db, "connection"):
            # A connection pool, which gets its connection back.
            with self._db.connection() as connection:
                yield connection
            return
        connection = self._db()
        try:
            yield connection
        finally:
            if hasattr(connection, "close"):
                connection.close()


def _dialect(connection: Any) -> type[_Attempt]:
    sqlite, psycopg = sys.modules.get("sqlite3"), sys.modules.get("psycopg")
    if sqlite is not None and isinstance(connection, sqlite.Connection):
        return _Sqlite
    if psycopg is not None and isinstance(connection, psycopg.Connection):
        return _Postgres
    found = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise bad(
        f"a transactional step was given a {found}; it can use sqlite3.Connection and psycopg.Connection"
    )


def _reached(stage: str, attempt: Any) -> None:
    if on_stage is not None:
        on_stage(stage, attempt)


class _Attempt:
    """One attempt in one transaction."""

    def __init__(self, connection: Any, table: str, attempt: Any) -> None:
        self.connection, self.attempt_ = connection, attempt
        self.table, self.shown = self.quoted(table), table
        self.key, self.step, self.birth = attempt.key, attempt.step, str(attempt.birth)
        self.run = self.key.split("/")[0]

    def quoted(self, table: str) -> str:
        """Quotes a name for SQL."""
        return '"' + table.replace('"', '""') + '"'

    def checked(self, birth: str, step: str) -> None:
        """Raises an error if the key belongs to another run."""
        if (birth, step) != (self.birth, self.step):
            raise OtherKeyError(
                f"the key {self.key} in the table `{self.shown}` belongs to the step `{step}` of another run of this id "
                "[TFY0050]; give each log directory a table of its own, or remove the keys of the run that no longer exists"
            )

    def done(self, work: Callable[[], Any]) -> str:
        """Does the work and returns its encoded result."""
        result: str = _core._encode(work(), f"the result of step `{self.step}`")
        _reached("done", self.attempt_)
        return result

    def awaited(self) -> None:
        """Raises an error if the run no longer waits for this attempt, so that it is rolled back."""
        if self.attempt_.is_given_up:
            raise RuntimeError("no task waits for this attempt any more, so it was undone")

    def prepare(self) -> None:
        """Prepares the connection."""
        raise NotImplementedError

    def attempt(self, work: Callable[[], Any]) -> str:
        """Does the work in a transaction, unless it was already done, and returns its encoded
        result.
        """
        raise NotImplementedError


class _Sqlite(_Attempt):
    def prepare(self) -> None:
        connection = self.connection
        if connection.in_transaction:
            raise bad(
                "the connection is in a transaction already",
                "let `db` return one that no other code uses",
            )
        # Only this code begins and ends the transaction.
        if getattr(connection, "autocommit", -1) != -1:
            connection.autocommit = True
        connection.isolation_level = None
        # A recorded step must not be lost in a power failure.
        if self._execute("PRAGMA synchronous").fetchone()[0] < 2:
            self._execute("PRAGMA synchronous = FULL")
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self.table} (key TEXT PRIMARY KEY, run TEXT NOT NULL, "
            "birth TEXT NOT NULL, step TEXT NOT NULL, result TEXT NOT NULL) STRICT, WITHOUT ROWID"
        )

    def attempt(self, work: Callable[[], Any]) -> str:
        connection = self.connection
        self._execute("BEGIN IMMEDIATE")
        try:
            _reached("begun", self.attempt_)
            known = self._look_up()
            if known is not None:
                self._execute("ROLLBACK")
                return known
            _reached("looked_up", self.attempt_)
            result = self.done(work)
            if not connection.in_transaction:
                raise bad(
                    f"the step `{self.step}` ended its transaction itself, which is the runtime's to end",
                    "leave `commit` and `rollback` out of it",
                )
            insert = (
                f"INSERT INTO {self.table} (key, run, birth, step, result) VALUES (?, ?, ?, ?, ?)"
            )
            self._execute(insert, (self.key, self.run, self.birth, self.step, result))
            _reached("written", self.attempt_)
            self.awaited()
        except BaseException:
            if connection.in_transaction:
                self._execute("ROLLBACK")
            raise
        self._commit()
        _reached("committed", self.attempt_)
        return result

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        cursor = self.connection.cursor()
        cursor.row_factory = None
        return cursor.execute(sql, values)

    def _look_up(self) -> str | None:
        select = f"SELECT birth, step, result FROM {self.table} WHERE key = ?"
        row = self._execute(select, (self.key,)).fetchone()
        if row is None:
            return None
        birth, step, result = (
            part.decode() if isinstance(part, bytes) else str(part) for part in row
        )
        self.checked(birth, step)
        return result

    def _commit(self) -> None:
        sqlite3 = sys.modules["sqlite3"]
        try:
            self._execute("COMMIT")
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (5, 6)
            if self.connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._execute("ROLLBACK")
            if busy:
                raise
            # The operating system failed during the commit. The next attempt reads the outcome from
            # the file.
            raise _InDoubt(f"the end of the transaction is not known: {error}") from error


class _NoTable(Exception):
    """The table of keys does not exist yet."""


class _Postgres(_Attempt):
    def quoted(self, table: str) -> str:
        # The driver interprets a percent sign as a placeholder.
        parts = table.replace("%", "%%").split(".")
        return ".".join('"' + part.replace('"', '""') + '"' for part in parts)

    def prepare(self) -> None:
        psycopg = sys.modules["psycopg"]
        if self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            raise bad(
                "the connection is in a transaction already",
                "let `db` return one that no other code uses",
            )

    def attempt(self, work: Callable[[], Any]) -> str:
        try:
            return self._attempt(work)
        except _NoTable:
            self._make_table()
            return self._attempt(work)

    def _make_table(self) -> None:
        errors = sys.modules["psycopg"].errors
        try:
            with self.connection.transaction():
                self._execute(
                    f"CREATE TABLE IF NOT EXISTS {self.table} (key text PRIMARY KEY, run text NOT NULL, "
                    "birth text NOT NULL, step text NOT NULL, result text)"
                )
        except (errors.UniqueViolation, errors.DuplicateTable):
            # Another process created the table at the same time.
            pass

    def _attempt(self, work: Callable[[], Any]) -> str:
        psycopg = sys.modules["psycopg"]
        transaction = self.connection.transaction()
        transaction.__enter__()
        try:
            # A recorded step must not be lost if the server fails.
            self._execute(
                "SELECT set_config('synchronous_commit', 'on', true) "
                "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            _reached("begun", self.attempt_)
            known = self._claim()
            if known is None:
                _reached("claimed", self.attempt_)
                result = self.done(work)
                update = f"UPDATE {self.table} SET result = %s WHERE key = %s"
                self._execute(update, (result, self.key))
                _reached("written", self.attempt_)
                self.awaited()
            else:
                result = known
        except BaseException:
            transaction.__exit__(*sys.exc_info())
            raise
        try:
            transaction.__exit__(None, None, None)
        except psycopg.Error as error:
            # Without a reply from the server the outcome is unknown; with one, the transaction
            # failed.
            if error.sqlstate is None:
                raise _InDoubt(f"the connection was lost during COMMIT: {error}") from error
            raise
        _reached("committed", self.attempt_)
        return result

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        rows = sys.modules["psycopg"].rows
        cursor = self.connection.cursor(row_factory=rows.tuple_row)
        return cursor.execute(sql, values)

    def _claim(self) -> str | None:
        insert = f"INSERT INTO {self.table} (key, run, birth, step) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        try:
            claimed = self._execute(insert, (self.key, self.run, self.birth, self.step)).rowcount
        except sys.modules["psycopg"].errors.UndefinedTable as error:
            raise _NoTable from error
        if claimed > 0:
            return None
        select = f"SELECT birth, step, result FROM {self.table} WHERE key = %s"
        birth, step, result = self._execute(select, (self.key,)).fetchone()
        self.checked(birth, step)
        return str(result)
