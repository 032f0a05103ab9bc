#!/usr/bin/env python3
"""A second reader of the log, written from docs/src/wal-format.md alone, with nothing but the standard library.

    wal_reader.py DIR      checks every line, blob, block and frame of the log in DIR, and says what it found
    wal_reader.py FILE…    checks the lines of single run files

It changes nothing. It ends with 1 at the first thing that is not as the format says. With --ignore-checksums before the
files it looks only at what their records have.
"""

import hashlib
import json
import os
import struct
import sys
import uuid

TABLE = []
for n in range(256):
    for _ in range(8):
        n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


class Bad(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Bad(what)


# What a record of a durable run has at least, by its type.
FIELDS = {
    "RunStart": ["id", "function", "input", "seed", "recording"],
    "TaskSpawn": ["child", "at"],
    "TaskYield": ["call"],
    "TaskWake": ["step"],
    "EffectStart": ["of", "attempt"],
    "EffectCheckpoint": ["of", "attempt", "value"],
    "EffectResult": ["of"],
    "PromiseSettled": ["promise", "step"],
    "Message": ["name", "value", "step"],
    "TaskAbort": ["error"],
    "Attributes": ["tags", "attributes"],
}
NOTES = ["InstructionStart", "LLMPlan", "StepStart", "ToolResult", "PatchPreview", "Commit", "TaskComplete"]
# The highest version of a line that this reader knows.
VERSION = 2


def check_terms(record, where):
    """Checks tags and attributes."""
    tags = record.get("tags", [])
    need(isinstance(tags, list) and all(isinstance(tag, str) for tag in tags), where + " has other tags")
    need(tags == sorted(set(tags), key=lambda tag: tag.encode()), where + " has tags that are not in order")
    for name, value in record.get("attributes", {}).items():
        is_time = isinstance(value, dict) and list(value) == ["time"] and value["time"].endswith("Z")
        need(is_time or isinstance(value, (str, int, float)), "%s has an attribute %s that is none" % (where, name))


def uuid_of(namespace, run_id):
    """The UUID of a run, from its namespace and id."""
    text = b"\xff%s\xff%s" % (namespace.encode(), run_id.encode()) if namespace else run_id.encode()
    return str(uuid.UUID(bytes=hashlib.sha256(text).digest()[:16], version=4))


def check_record(record, where, begun):
    """Checks the fields of a record of a durable run; begun has, by call, the attempts that were."""
    kind = record["type"]
    for field in FIELDS.get(kind, []):
        need(field in record, "%s, a %s, has no %s" % (where, kind, field))
    if kind == "RunStart":
        need(record.get("rules", 2) == 2, "%s follows rules that are not known" % where)
        is_second = "namespace" in record or "deadline" in record
        need((record["v"] == 2) == is_second, "%s has version %d" % (where, record["v"]))
        is_own = record["task_id"] == uuid_of(record.get("namespace", ""), record["id"])
        need(is_own, "%s has another namespace or id than its UUID" % where)
    if kind in ("RunStart", "Attributes"):
        check_terms(record, where)
    if kind in NOTES:
        need("value" in record and "at" in record, "%s, a %s, says nothing" % (where, kind))
        for field in ("of", "instruction"):
            is_before = record.get(field, 0) < record["seq"] or field + "_gen" in record
            need(is_before, "%s is of a record that is not before it" % where)
        return
    if kind == "TaskSpawn":
        need(record.get("daemon", True) is True, "%s says of a task that it is no daemon task" % where)
    of = record.get("of")
    if of is not None:
        need(0 < of < record["seq"], "%s is of a record that is not before it" % where)
    if kind == "EffectStart":
        begun.setdefault(of, []).append(record["attempt"])
        need(begun[of] == sorted(set(begun[of])), "%s has an attempt that was before" % where)
    if kind in ("EffectCheckpoint", "EffectResult") and "attempt" in record:
        need(begun.get(of, [0])[-1] == record["attempt"], "%s is of an attempt that is not under way" % where)
    if kind == "EffectResult" and "retry_at" not in record and "decided" not in record:
        need("step" in record and ("value" in record) != ("error" in record), "%s has no result" % where)
    if kind == "Message" and "from" in record:
        sender, _, seq = record["from"].partition("/")
        need(str(uuid.UUID(sender)) == sender and int(seq) > 0, "%s has no key as its from" % where)


def check_lines(data, run=None, blobs=None, checksums=True):
    """Checks the lines of a run file; gives (lines, generation, last seq, last crc)."""
    crc = generation = begun = None
    seq = offset = 0
    while offset < len(data):
        end = data.find(b"\n", offset)
        where = "record %d at byte %d" % (seq + 1, offset)
        need(end >= 0, where + " is cut off")
        line = data[offset : end + 1]
        need(line[-19:-11] == b',"crc":"' and line[-3:] == b'"}\n', where + " has no checksum")
        try:
            record = json.loads(line)
        except ValueError as error:
            raise Bad("%s is no JSON: %s" % (where, error))
        need(1 <= record["v"] <= VERSION, "%s has version %s, which is not known" % (where, record["v"]))
        if crc is None:
            run = run or record["task_id"]
            generation = record["gen"]
            crc = crc32c(uuid.UUID(run).bytes + struct.pack("<I", generation))
        crc = crc32c(line[:-19], crc)
        need(not checksums or record["crc"] == "%08x" % crc, where + " has another checksum")
        need(record["seq"] == seq + 1, where + " has another number")
        need(record["task_id"] == run, where + " is of another run")
        need(list(record)[:6] == ["v", "seq", "ts", "type", "task_id", "tid"], where + " has another order")
        if record["type"] == "RunStart" and "function" in record:
            begun = {}
        if begun is not None:
            check_record(record, where, begun)
        for value in record.values():
            if blobs is not None and isinstance(value, dict) and "$blob" in value:
                need(blobs.get(value["$blob"]) == value["len"], where + " names a blob that is not there")
        seq += 1
        offset = end + 1
    return seq, generation, seq, crc


def check_blocks(data, salt, upto):
    """Gives the blocks of a segment as (generation, number, durable, parts). Those that the index knows to be applied, up to upto,
    may be cut off or overwritten."""
    at, blocks = 0, []
    while at + 64 <= len(data):
        header = data[at : at + 64]
        magic, version, crc, generation, number, durable, length, count, table_crc = struct.unpack(
            "<8sIIQQQQII8x", header
        )
        if magic != b"\x89TFYBLK\n" or crc32c(header[16:], crc32c(header[:12], salt)) != crc:
            break
        if blocks and generation != blocks[-1][0]:
            break
        need(version == 1, "a block of another version")
        table = data[at + 64 : at + 64 + 72 * count]
        if number <= upto and crc32c(table, salt) != table_crc:
            break
        need(crc32c(table, salt) == table_crc, "block %d has another table" % number)
        content = at + 64 + len(table)
        parts = []
        for n in range(count):
            part = table[72 * n : 72 * n + 72]
            kind, flags, part_crc, part_length = struct.unpack("<BBxxIQ", part[:16])
            body = data[content : content + part_length]
            need(number <= upto or crc32c(body) == part_crc, "part %d of block %d has another checksum" % (n, number))
            parts.append((kind, flags, part[16:], body))
            content += part_length
        is_whole = sum(len(part[3]) for part in parts) == length
        need(number <= upto or is_whole, "block %d has another length" % number)
        blocks.append((generation, number, durable, parts))
        at = (content + 4095) // 4096 * 4096
    return blocks


def check_index(data):
    """Gives (last block, life, salt, segments, expected block, {run: (state, generation, length, seq, crc)})."""
    at, runs, head = 0, {}, None
    while at < len(data):
        header = data[at : at + 48]
        magic, version, crc, upto, life, count, table_crc, salt, segments = struct.unpack(
            "<8sIIQQIIII", header
        )
        need(magic == b"\x89TFYIDX\n" and version in (1, 2), "a frame that is none")
        need(crc32c(header[16:], crc32c(header[:12])) == crc, "a frame with another checksum")
        before = 8 if version == 2 else 0
        rest = data[at + 48 : at + 48 + before + 48 * count]
        need(crc32c(rest) == table_crc, "a frame with another table")
        expected = struct.unpack("<Q", rest[:8])[0] if before else 0
        table = rest[before:]
        for n in range(count):
            entry = table[48 * n : 48 * n + 48]
            length, seq, generation, line_crc, state = struct.unpack("<QQIIB7x", entry[16:])
            runs[str(uuid.UUID(bytes=entry[:16]))] = (state, generation, length, seq, line_crc)
        head = (upto, life, salt, segments, expected)
        at += 48 + len(rest)
    need(head is not None, "an index without a frame")
    return head + (runs,)


def check_removed(data, salt):
    """Gives the runs of the list of removed ones."""
    need(len(data) % 20 == 0, "half an entry in the list of removed runs")
    runs = []
    for at in range(0, len(data), 20):
        run, crc = data[at : at + 16], struct.unpack("<I", data[at + 16 : at + 20])[0]
        need(crc32c(struct.pack("<I", salt), crc32c(run)) == crc, "a removed run with another checksum")
        runs.append(str(uuid.UUID(bytes=run)))
    return runs


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def check_log(root):
    wal, commit = os.path.join(root, "wal"), os.path.join(root, "commit")
    blobs = {}
    if os.path.isdir(os.path.join(wal, "blobs")):
        for name in sorted(os.listdir(os.path.join(wal, "blobs"))):
            data = read(wal, "blobs", name)
            need(hashlib.sha256(data).hexdigest() == name, "blob %s has another content" % name)
            blobs[name] = len(data)
    upto, life, salt, segments, expected, index = check_index(read(commit, "index"))
    names = sorted(name for name in os.listdir(commit) if name.endswith(".seg"))
    need(len(names) >= segments, "a segment is missing")
    blocks, newest = [], 0
    for name in names:
        data = read(commit, name)
        need(len(data) >= int(name[:-4].split("-")[1]), name + " is too short")
        found = [b for b in check_blocks(data, salt, upto) if b[0] >= life]
        newest = max([newest] + [b[1] for b in found])
        blocks += [b for b in found if b[1] > upto]
    need(newest >= expected, "block %d is missing" % expected)
    blocks.sort(key=lambda block: block[1])
    need([b[1] for b in blocks] == list(range(upto + 1, upto + 1 + len(blocks))), "a block is missing")
    for _, _, _, parts in blocks:
        for kind, flags, body, content in parts:
            if kind == 1:
                need(hashlib.sha256(content).digest() == body[:32], "a blob with another name")
                continue
            run = str(uuid.UUID(bytes=body[:16]))
            if kind == 2:
                index[run] = (2,) + index[run][1:]
                continue
            generation, before, after, offset, first, last = struct.unpack("<III4xQQQ", body[16:])
            index[run] = (flags & 1, generation, offset + len(content), last, after)
    if os.path.exists(os.path.join(commit, "removed")):
        for run in check_removed(read(commit, "removed"), salt):
            need(index.get(run, (0,))[0] == 2, "%s is listed as removed and is not" % run)
    lines = 0
    for run, (state, generation, length, seq, crc) in sorted(index.items()):
        path = os.path.join(wal, run + ".wal")
        if state == 2:
            need(not os.path.exists(path), "the file of %s, which was removed, is there" % run)
            continue
        data = read(path)
        need(len(data) == length, "the file of %s has %d bytes, not %d" % (run, len(data), length))
        found = check_lines(data, run, blobs)
        need(found[1:] == (generation, seq, crc), "run %s ends elsewhere" % run)
        lines += found[0]
    print("%d runs, %d lines, %d blobs, %d blocks" % (len(index), lines, len(blobs), len(blocks)))


def main(paths):
    checksums = paths[:1] != ["--ignore-checksums"]
    try:
        for path in paths if checksums else paths[1:]:
            if os.path.isdir(path):
                check_log(path)
            else:
                print("%d lines" % check_lines(read(path), checksums=checksums)[0])
    except Bad as bad:
        sys.exit("%s" % bad)


if __name__ == "__main__":
    main(sys.argv[1:])
