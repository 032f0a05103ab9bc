"""Takes one sample and writes it as JSON. This is the entry point of the sample processes."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import sys
from pathlib import Path

from .harness import Mode
from .measures import MEASURES


def main(measure: str, contender: str, mode: str, directory: str) -> None:
    """Takes the sample. Output of the contender goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    [take] = [
        one.take
        for wanted in MEASURES
        if wanted.name == measure
        for one in wanted.contenders
        if one.name == contender
    ]
    gc.collect()
    taken = take(Mode(mode), Path(directory))
    out.write(json.dumps(dataclasses.asdict(taken)))
    out.flush()
    # Threads that a peer has left behind must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
