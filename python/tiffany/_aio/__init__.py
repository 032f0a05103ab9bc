"""Private: tiffany beside asyncio, threads and processes."""
