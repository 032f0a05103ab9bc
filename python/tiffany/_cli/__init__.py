"""Private: what the command `tiffany` does in Python."""
