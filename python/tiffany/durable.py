"""Durable runs: workflows, steps, messages, and related types. All names can also be imported from
`tiffany` itself.
"""

from __future__ import annotations

from tiffany._agents import Agent, agent
from tiffany._approvals import Approval, OpenApproval
from tiffany._control import Connection, connect
from tiffany._core import (
    Approve,
    Attempt,
    ContinueAs,
    Done,
    Patched,
    ReceiveMessage,
    SendMessage,
    Step,
    StepCall,
    attempt,
    on_question,
)
from tiffany._records import Backoff, Chunk, Doubt, Paused, Queue, Run, Status
from tiffany._retention import Retention
from tiffany._run import run
from tiffany._runtime import Runtime
from tiffany._saga import Saga
from tiffany._steps import step
from tiffany._workflows import workflow

__all__ = [
    "Agent",
    "Approval",
    "Approve",
    "Attempt",
    "Backoff",
    "Chunk",
    "Connection",
    "ContinueAs",
    "Done",
    "Doubt",
    "OpenApproval",
    "Patched",
    "Paused",
    "Queue",
    "ReceiveMessage",
    "Retention",
    "Run",
    "Runtime",
    "Saga",
    "SendMessage",
    "Status",
    "Step",
    "StepCall",
    "agent",
    "attempt",
    "connect",
    "on_question",
    "run",
    "step",
    "workflow",
]
