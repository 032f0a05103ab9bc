"""All measures, in the order they are taken."""

from __future__ import annotations

from . import (
    py_await,
    py_depth50,
    py_echo,
    py_embed,
    py_leak,
    py_spawn_join,
    py_w1,
    py_w2,
    py_w3,
    py_yield,
)

MEASURES = (
    py_yield.MEASURE,
    py_await.MEASURE,
    py_spawn_join.MEASURE,
    py_depth50.MEASURE,
    py_echo.ECHO_64,
    py_echo.ECHO_1000,
    py_w1.MEASURE,
    py_w2.MEASURE,
    py_w3.MEASURE,
    py_embed.MEASURE,
    py_leak.MEASURE,
)
