"""What pytest leaves alone here: programs of the benchmark, whose libraries need not be installed."""

collect_ignore_glob = ["tiffany/bench/durable/with_*.py"]
