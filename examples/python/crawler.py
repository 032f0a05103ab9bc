"""A crawler that follows the links of a site, a few pages at a time, and gives up on slow pages.

    tiffany run examples/python/crawler.py
    tiffany run examples/python/crawler.py:crawl 127.0.0.1 8000 /

Python's own HTTP server serves the site on a thread of this process. The site has a broken link and
a page that never responds.
"""

from __future__ import annotations

import http.server
import re
import sys
import threading
import time
from dataclasses import dataclass, field

import tiffany
from tiffany import create_group, create_semaphore, net, spawn, timeout
from tiffany.calls import Semaphore

#: How many pages are fetched at once.
AT_ONCE = 4
#: How long a page may take, in seconds.
TIMEOUT = 1.0


@dataclass
class Crawl:
    """The pages known so far. All tasks share it: between two calls no other task runs."""

    host: str
    port: int
    gate: Semaphore
    seen: set[str] = field(default_factory=set)
    links: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


async def fetch(host: str, port: int, path: str) -> tuple[int, str]:
    """Returns the status and the text of a page."""
    with await net.connect(host, port) as stream:
        await stream.write_all(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        status = int((await stream.read_line()).split()[1])
        while (await stream.read_line()).strip():
            pass
        body = b""
        while part := await stream.read(65536):
            body += part
    return status, body.decode()


async def visit(crawl: Crawl, path: str, group: tiffany.calls.Group) -> None:
    """Fetches a page and starts a task for each new link on it."""
    try:
        async with crawl.gate:
            status, text = await timeout(TIMEOUT, fetch(crawl.host, crawl.port, path))
    except TimeoutError:
        crawl.failed[path] = "too slow"
        return
    if status != 200:
        crawl.failed[path] = str(status)
        return
    found = crawl.links[path] = re.findall(r'href="(/[^"]*)"', text)
    for link in found:
        if link not in crawl.seen:
            crawl.seen.add(link)
            await spawn(visit(crawl, link, group), name=link, group=group)


async def crawl(host: str, port: str, start: str = "/") -> Crawl:
    """Visits all pages that can be reached."""
    known = Crawl(host, int(port), await create_semaphore(AT_ONCE), {start})
    # The group ends when all of its members have finished, including those that join later.
    async with await create_group() as group:
        await spawn(visit(known, start, group), name=start, group=group)
    return known


class Site(http.server.BaseHTTPRequestHandler):
    """Thirty pages that link to each other, a broken link, and a page that never responds."""

    def do_GET(self) -> None:
        number = int(self.path[1:] or 0) if self.path[1:].isdigit() or self.path == "/" else None
        if self.path == "/slow":
            time.sleep(3 * TIMEOUT)
        if number is None or number >= 30:
            self.send_error(404)
            return
        others = [f"/{2 * number + 1}", f"/{2 * number + 2}", f"/{number // 2}"]
        links = [link for link in others if int(link[1:]) < 30] + ["/slow"] * (number == 7)
        links += ["/nowhere"] * (number == 9)
        body = "".join(f'<a href="{link}">{link}</a>' for link in links).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing."""


async def main() -> str:
    """Starts a site and crawls it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        host, port = server.server_address[:2]
        known = await crawl(str(host), str(port))
    finally:
        server.shutdown()
        server.server_close()
    # The first page has two paths.
    assert set(known.links) == {"/", *(f"/{number}" for number in range(30))}, known.links
    assert known.failed == {"/slow": "too slow", "/nowhere": "404"}, known.failed
    return f"{len(known.links)} pages; {known.failed}"


if __name__ == "__main__":
    print(tiffany.run(main(*sys.argv[1:])))
