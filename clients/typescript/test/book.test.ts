// The program on the page about clients prints what stands under it.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { Daemon } from "./daemon.js";

test("the program of the book", async () => {
  const page = readFileSync(fileURLToPath(new URL("../../../../docs/src/clients.md", import.meta.url)), "utf8");
  const [, program, printed] = /```ts\n([^]*?)```\n\n```text\n([^]*?)```/.exec(page) ?? [];
  assert.ok(program !== undefined && printed !== undefined);
  const { outputText } = ts.transpileModule(program, { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext } });
  // Here the name of the package is known.
  const file = fileURLToPath(new URL("../book-program.mjs", import.meta.url));
  writeFileSync(file, outputText);
  await using daemon = await new Daemon().start();
  const done = spawnSync(process.execPath, [file], { encoding: "utf8", env: { ...process.env, TIFFANY_URL: daemon.url }, timeout: 30_000 });
  assert.deepEqual([done.stdout, done.stderr], [printed, ""]);
});
