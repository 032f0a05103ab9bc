"""Transactional steps over sqlite3 and psycopg: exactly once, wherever the process dies."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import tiffany
from durable_kit import finish, kill_until_over, python
from postgres_kit import Server
from tiffany import step
from tiffany.durable import _transactions
from tiffany.errors import BadArgumentError

ROUNDS = 8


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgres"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """How the database is reached, with an empty table of effects."""
    bank: Sqlite | Postgres
    if request.param == "sqlite":
        bank = Sqlite(tmp_path / "bank.db")
    else:
        bank = Postgres(request.getfixturevalue("server"))
    bank.do("CREATE TABLE effect (round bigint, key text)")
    return bank


class Sqlite:
    how, mark = "sqlite", "?"
    stages = ("begun", "looked_up", "done", "written", "committed")

    def __init__(self, path: Path) -> None:
        self.path = path

    def connect(self) -> Any:
        return sqlite3.connect(self.path)

    def do(self, sql: str) -> list[Any]:
        connection = self.connect()
        try:
            with connection:
                return list(connection.execute(sql).fetchall())
        finally:
            connection.close()


class Postgres:
    mark = "%s"
    stages = ("begun", "claimed", "done", "written", "committed")

    def __init__(self, server: Server) -> None:
        self.server, self.how = server, server.how
        self.do("DROP TABLE IF EXISTS effect")
        self.do("DROP TABLE IF EXISTS tiffany_steps")

    def connect(self) -> Any:
        return self.server.connect()

    def do(self, sql: str) -> list[Any]:
        with self.server.connect() as connection:
            cursor = connection.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []


def effects(bank: Any) -> Any:
    return bank.do("SELECT round, count(*) FROM effect GROUP BY round ORDER BY round")


@pytest.mark.parametrize("at", range(5))
def test_it_happens_once_whichever_part_the_process_dies_after(
    at: int, bank: Any, tmp_path: Path
) -> None:
    deaths = 0
    while True:
        code, out, err = finish(python("programs/bank.py", tmp_path, bank.how, bank.stages[at]), 60)
        if code == 0:
            break
        assert code == 9, err
        deaths += 1
    assert deaths == ROUNDS
    assert json.loads(out) == list(range(1, ROUNDS + 1))
    assert effects(bank) == [(n, 1) for n in range(ROUNDS)]


def test_it_happens_once_with_kills_at_random_moments(bank: Any, tmp_path: Path) -> None:
    out = kill_until_over("programs/bank.py", tmp_path, bank.how, "-", seed=4, kills=3)
    assert json.loads(out) == list(range(1, ROUNDS + 1))
    assert effects(bank) == [(n, 1) for n in range(ROUNDS)]


def test_the_table_is_the_one_of_the_rust_crates(bank: Any, tmp_path: Path) -> None:
    code, _, err = finish(python("programs/bank.py", tmp_path, bank.how, "-"))
    assert code == 0, err
    columns = "key, run, birth, step, result"
    rows = bank.do(f"SELECT {columns} FROM tiffany_steps ORDER BY key")
    assert len(rows) == ROUNDS
    for key, run, birth, name, result in rows:
        assert key.startswith(f"{run}/") and name == "take" and int(birth) > 0
        assert "round" in json.loads(result)


BANKS: dict[str, Any] = {}


def connect() -> Any:
    return BANKS["bank"].connect()


class Broke(Exception):
    pass


@step(kind="transactional", db=connect)
def breaks(db: Any, how: str) -> Any:
    db.execute("INSERT INTO effect (round, key) VALUES (1, 'x')")
    if how == "raises":
        raise Broke(how)
    if how == "commits":
        db.commit()
    if how == "unserializable":
        return object()


def breaking(how: str) -> Any:
    yield breaks(how)


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("raises", Broke, "raises"),
        ("unserializable", tiffany.errors.NotSerializableError, "TFY0034"),
    ],
)
def test_work_that_fails_is_undone(
    how: str, error: type[Exception], text: str, bank: Any, tmp_path: Path
) -> None:
    BANKS["bank"] = bank
    with pytest.raises(error, match=text):
        tiffany.run(breaking(how), wal=tmp_path / "wal", id="a")
    assert effects(bank) == []
    assert bank.do("SELECT count(*) FROM tiffany_steps") == [(0,)]


def test_work_must_not_end_the_transaction(bank: Any, tmp_path: Path) -> None:
    BANKS["bank"] = bank
    expected = (BadArgumentError, psycopg.ProgrammingError)
    with pytest.raises(expected, match=r"transaction|Transaction"):
        tiffany.run(breaking("commits"), wal=tmp_path / "wal", id="a")
    assert bank.do("SELECT count(*) FROM tiffany_steps") == [(0,)]


def test_a_key_of_another_run_of_the_same_id_is_an_error(bank: Any, tmp_path: Path) -> None:
    for wal, code in (("one", 0), ("two", 1)):
        (tmp_path / wal).mkdir()
        if bank.how == "sqlite" and wal == "two":
            (tmp_path / "two" / "bank.db").symlink_to(tmp_path / "one" / "bank.db")
        elif bank.how == "sqlite":
            bank.path = tmp_path / "one" / "bank.db"
            bank.do("CREATE TABLE effect (round bigint, key text)")
        ended = finish(python("programs/bank.py", tmp_path / wal, bank.how, "-"))
        assert ended[0] == code, ended
    assert "OtherKeyError" in ended[2] and "TFY0050" in ended[2]
    assert effects(bank) == [(n, 1) for n in range(ROUNDS)]


@step(kind="transactional", db=lambda: object())
def elsewhere(db: Any) -> None:
    pass


def elsewhere_main() -> Any:
    yield elsewhere()


def test_other_databases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgumentError, match=r"sqlite3\.Connection and psycopg"):
        tiffany.run(elsewhere_main(), wal=tmp_path, id="a")


LINES: list[Any] = []


def connect_and_keep() -> Any:
    connection = connect()
    LINES.append(connection)
    return connection


@step(kind="transactional", db=connect_and_keep)
def cut_off(db: Any) -> int:
    db.execute("INSERT INTO effect (round, key) VALUES (1, 'x')")
    return tiffany.attempt().number


def cutting(retries: int) -> Any:
    return (yield cut_off.with_options(retries=retries, backoff=0.01)())


@pytest.mark.parametrize(("lost", "number"), [("the commit", 2), ("its answer", 1)])
def test_a_line_that_is_lost_during_commit_leaves_a_doubt_which_the_next_attempt_clears(
    lost: str, number: int, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BANKS["bank"] = bank = Postgres(server)
    bank.do("CREATE TABLE effect (round bigint, key text)")

    def lose(stage: str, attempt: Any) -> None:
        if stage == "written" and attempt.number == 1:
            how = socket.SHUT_RDWR if lost == "the commit" else socket.SHUT_RD
            with socket.socket(fileno=os.dup(LINES[-1].fileno())) as line:
                line.shutdown(how)

    monkeypatch.setattr(_transactions, "on_stage", lose)
    with pytest.raises(tiffany.errors.InDoubtError, match="lost during COMMIT"):
        tiffany.run(cutting(0), wal=tmp_path / "one", id="a")
    bank.do("DELETE FROM effect")
    assert tiffany.run(cutting(2), wal=tmp_path / "two", id="b") == number
    assert effects(bank) == [(1, 1)]


class Pool:
    """As `psycopg_pool` has it: a connection is lent."""

    def __init__(self) -> None:
        self.lent = 0

    def connection(self) -> Any:
        self.lent += 1
        return connect()


POOL = Pool()


@step(kind="transactional", db=POOL, table="other_table")
def pooled(db: Any, n: int) -> int:
    return n + len(db.execute("SELECT 1").fetchall())


def pooling() -> Any:
    return (yield pooled(1))


def test_a_pool_lends_the_connection_and_the_table_has_any_name(
    server: Server, tmp_path: Path
) -> None:
    BANKS["bank"] = bank = Postgres(server)
    bank.do("DROP TABLE IF EXISTS other_table")
    assert tiffany.run(pooling(), wal=tmp_path, id="a") == 2
    assert POOL.lent == 1
    assert bank.do("SELECT count(*) FROM other_table") == [(1,)]
