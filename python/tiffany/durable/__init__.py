"""Durable runs: workflows, steps, state machines, messages, and related types. The names that most
programs use are in `tiffany` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiffany._activity import Activity, Lost, Subscription
from tiffany._aio.runtime import AsyncRun, AsyncRuntime
from tiffany._approvals import Approval, OpenApproval
from tiffany._attributes import Attribute
from tiffany._core import (
    AddTags,
    Approve,
    Attempt,
    ContinueAs,
    Done,
    Patched,
    ReceiveMessage,
    RemoveTags,
    SendMessage,
    SetAttributes,
    Step,
    StepCall,
    attempt,
    on_question,
)
from tiffany._records import (
    Backoff,
    Chunk,
    Doubt,
    Paused,
    Queue,
    Run,
    RunError,
    RunInfo,
    RunPage,
    Status,
)
from tiffany._retention import Retention
from tiffany._settings import RuntimeSettings
from tiffany.durable._run import run
from tiffany.durable._runtime import Runtime
from tiffany.durable._saga import Saga
from tiffany.durable._state_machines import StateMachine, state_machine
from tiffany.durable._steps import step
from tiffany.durable._workflows import workflow

if TYPE_CHECKING:
    from tiffany.client import Client, connect

    Agent = StateMachine
    Connection = Client
    agent = state_machine
else:

    def __getattr__(name: str) -> object:
        if name == "connect":
            from tiffany.client import connect

            return connect
        from tiffany._old_names import found

        return found(name, __name__)


__all__ = [
    "Activity",
    "AddTags",
    "Approval",
    "Approve",
    "AsyncRun",
    "AsyncRuntime",
    "Attempt",
    "Attribute",
    "Backoff",
    "Chunk",
    "ContinueAs",
    "Done",
    "Doubt",
    "Lost",
    "OpenApproval",
    "Patched",
    "Paused",
    "Queue",
    "ReceiveMessage",
    "RemoveTags",
    "Retention",
    "Run",
    "RunError",
    "RunInfo",
    "RunPage",
    "Runtime",
    "RuntimeSettings",
    "Saga",
    "SendMessage",
    "SetAttributes",
    "StateMachine",
    "Status",
    "Step",
    "StepCall",
    "Subscription",
    "attempt",
    "connect",
    "on_question",
    "run",
    "state_machine",
    "step",
    "workflow",
]
