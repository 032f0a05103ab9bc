// A daemon in a process of its own, for the tests.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const program = process.env["TIFFANY_PROGRAM"] ?? join(root, "target/debug/examples/orders");

export class Daemon {
  readonly dir = mkdtempSync(join(tmpdir(), "tiffany-ts-"));
  url = "";
  #child: ChildProcess | undefined;
  #config: string[] = [];

  /** Starts it, on the port that it had before. */
  async start(config?: string): Promise<this> {
    if (config !== undefined) {
      const file = join(this.dir, "daemon.toml");
      writeFileSync(file, config);
      this.#config = ["--config", file];
    }
    const listen = this.url === "" ? "127.0.0.1:0" : new URL(this.url).host;
    const words = ["--dir", join(this.dir, "wal"), "--json", "serve", "--listen", listen, ...this.#config];
    const child = spawn(program, words, { stdio: ["ignore", "pipe", "ignore"] });
    this.#child = child;
    for await (const line of createInterface({ input: child.stdout })) {
      this.url = (JSON.parse(line) as { url: string }).url;
      return this;
    }
    throw new Error(`${program} did not serve`);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Runs a command in its directory, and returns what it prints as JSON. */
  command(...words: string[]): Record<string, unknown> {
    const done = spawnSync(program, ["--dir", join(this.dir, "wal"), "--json", ...words], { encoding: "utf8" });
    if (done.status !== 0) throw new Error(done.stderr);
    return JSON.parse(done.stdout.split("\n")[0] ?? "{}") as Record<string, unknown>;
  }
}

/** A server that gives each request the next of these answers: status and body. */
export async function answering(answers: [number, string][], use: (url: string, asked: string[]) => Promise<void>): Promise<void> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const [status, body] = answers.shift() ?? [200, "{}"];
    if (status === 0) {
      request.socket.destroy();
      return;
    }
    response.writeHead(status, { "content-type": "application/problem+json", connection: "close" }).end(body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}
