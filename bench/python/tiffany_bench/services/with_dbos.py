"""DBOS with SQLite in a FastAPI service, as its documentation shows it: a plain ``def`` endpoint,
which FastAPI calls on a thread, calls the workflow.

Settings: a database in WAL mode, which is faster than SQLite's default journal that DBOS leaves
alone. ``synchronous`` stays at its default FULL: a step is on the disk before the next one starts,
as in tiffany.
"""

import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn
from dbos import DBOS, SetWorkflowID
from fastapi import FastAPI


def launch(directory: Path) -> None:
    """Opens the database."""
    database = directory / "dbos.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        [synchronous] = connection.execute("PRAGMA synchronous").fetchone()
        assert synchronous == 2, "commits would not wait for the disk"
    connection.close()
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{database}",
            "log_level": "ERROR",
        }
    )
    DBOS.launch()


def serve(app: FastAPI) -> None:
    """Writes the port and serves."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run([listener])


def one_more(number: int) -> int:
    return number + 1


add: Callable[[int], int] = DBOS.step(name="add")(one_more)


def adds(number: int) -> int:
    for _ in range(3):
        number = add(number)
    return number


three: Callable[[int], int] = DBOS.workflow(name="three")(adds)

app = FastAPI()


@app.post("/runs/{id}")
def place(id: str) -> int:
    with SetWorkflowID(id):
        return three(1)


if __name__ == "__main__":
    launch(Path(sys.argv[1]))
    serve(app)
