"""Sockets for tasks.

>>> import tiffany
>>> from tiffany import net
>>> async def server(listener):
...     stream, _ = await listener.accept()
...     with stream:
...         await stream.write_all(await stream.read_line())
>>> async def main():
...     with await net.listen() as listener:
...         await tiffany.spawn(server(listener))
...         with await net.connect(*listener.address) as stream:
...             await stream.write_all(b"hello\\n")
...             return await stream.read_line()
>>> tiffany.run(main())
b'hello\\n'
"""

from __future__ import annotations

from tiffany import _core

Listener = _core._net.Listener
Stream = _core._net.Stream
connect = _core._net.connect
connect_unix = _core._net.connect_unix
listen = _core._net.listen
listen_unix = _core._net.listen_unix

__all__ = ["Listener", "Stream", "connect", "connect_unix", "listen", "listen_unix"]
