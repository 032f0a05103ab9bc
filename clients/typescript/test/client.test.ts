// The client against a real daemon, and against servers that are not one.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Client, ClientSettingsError, type Item, type ListOptions, LostDaemonError, OldDaemonError, RunFailedError, TiffanyError } from "../src/index.js";
import { Daemon, answering } from "./daemon.js";

const daemon = new Daemon();
let client: Client;

before(async () => {
  await daemon.start();
  client = new Client(daemon.url);
});
after(() => daemon[Symbol.asyncDispose]());

function code(wanted: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof TiffanyError, String(error));
    assert.equal(error.code, wanted, error.message);
    assert.ok(error.next.length > 0 && error.message.includes(`[${wanted}]; `), error.message);
    return true;
  };
}

async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < 500; tries++) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("it never came");
}

test("a run is started once and waited for", async () => {
  const run = await client.submit("nap", 0.1, { id: "nap/1 ü" });
  assert.equal(run.new, true);
  assert.equal(await client.result<number>("nap/1 ü"), 0.1);
  assert.deepEqual(await client.submit("nap", 0.1, { id: "nap/1 ü" }), { ...run, new: false });
  await assert.rejects(client.submit("nap", 0.2, { id: "nap/1 ü" }), code("TFY0037"));
  assert.equal(await client.result((await client.submit("nap", 0)).uuid), 0);
  const shown = await client.show(run.uuid);
  assert.deepEqual([shown.state, shown.value, shown.function], ["completed", 0.1, "nap"]);
});

test("a failure has its code", async () => {
  await assert.rejects(client.result("never"), code("TFY0041"));
  await assert.rejects(client.submit("nothing"), (error) => error instanceof TiffanyError && error.next.includes("status"));
  const slow = await client.submit("nap", 60, { id: "slow" });
  await assert.rejects(client.result(slow.uuid, { timeoutSeconds: 0 }), { name: "TimeoutError" });
  await assert.rejects(client.result(slow.uuid, { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  await client.hold("slow", { why: "lunch" });
  await assert.rejects(client.result("slow"), (error) => error instanceof RunFailedError && error.state === "held" && error.message.includes("lunch"));
  await client.release("slow");
  await client.cancel("slow");
  await assert.rejects(client.result("slow"), (error) => error instanceof RunFailedError && error.state === "cancelled");
});

test("a run is talked to", async () => {
  const run = await client.submit("order", "tea", { id: "order-1" });
  const promise = await until(async () => (await client.show("order-1")).promises?.[0]);
  assert.equal(await client.query<string>("order-1", "status"), "tea for 42");
  await assert.rejects(client.query("order-1", "weather"), code("TFY0044"));
  assert.equal(await client.settle(promise, true), true);
  await client.send("order-1", "address", "here");
  assert.match(await client.result<string>(run.uuid), /^tea in box with label to here$/);
});

test("a question is answered", async () => {
  const run = await client.submit("deploy", "v1", { id: "deploy-1" });
  const open = await until(async () => (await client.approvals()).find((each) => each.run === run.uuid));
  assert.ok(open.choices.length > 1);
  const decided = await client.approve(open.id, { choice: open.choices[0]!, because: "it is tested" });
  assert.deepEqual([decided.choice, decided.why], [open.choices[0], "it is tested"]);
  await client.cancel(run.uuid).catch(() => undefined);
  assert.deepEqual(await client.doubts(), []);
});

test("runs are listed page by page", async () => {
  const ids = Array.from({ length: 7 }, (_, number) => `listed ${number}`);
  for (const id of ids) await client.submit("nap", 0, { id });
  for (const id of ids) await client.result(id);
  const found: string[] = [];
  for await (const run of client.list({ text: "listed", sort: "id", page: 3 })) found.push(run.id);
  assert.deepEqual(found, ids);
  for await (const _ of client.list({ text: "listed", state: ["failed", "live"] })) assert.fail("none has failed");
  const first = await client.show("listed 0");
  const older: string[] = [];
  for await (const run of client.list({ before: first.started })) older.push(run.id);
  assert.ok(!older.includes("listed 0") && !older.includes("listed 6"));
});

test("runs have tags, attributes and deadlines", async () => {
  const due = new Date("2027-01-15T08:00:00.250Z");
  const attributes = { customer: "ada, or not", amount: 17, rate: 0.5, paid: false, due };
  const deadline = new Date(Date.now() + 3_600_000);
  await client.submit("nap", 0, { id: "tagged", tags: ["gold", "a,b"], attributes, deadline });
  await client.submit("nap", 60, { id: "late", tags: ["gold"], deadline: 0.2 });
  await client.submit("nap", 0, { id: "plain", tags: [], attributes: {} });
  await client.result("tagged");
  const shown = await client.show("tagged");
  assert.deepEqual(shown.tags, ["a,b", "gold"]);
  assert.deepEqual(shown.attributes, { ...attributes, due: { time: "2027-01-15T08:00:00.250000000Z" } });
  assert.equal(Date.parse(shown.deadline ?? ""), deadline.getTime());
  await assert.rejects(client.result("late"), (error) => error instanceof RunFailedError && code("TFY0271")(error));
  const ids = async (options: ListOptions) => {
    const found: string[] = [];
    for await (const run of client.list({ ...options, sort: "id" })) found.push(run.id);
    return found;
  };
  assert.deepEqual(await ids({ tags: ["gold"] }), ["late", "tagged"]);
  assert.deepEqual(await ids({ tags: ["gold", "a,b"] }), ["tagged"]);
  assert.deepEqual(await ids({ attributes: attributes }), ["tagged"]);
  assert.deepEqual(await ids({ attributes: { amount: "17" } }), []);
  assert.deepEqual(await ids({ attributes: ["amount>=17", "customer=ada, or not", `due<=${due.toISOString()}`] }), ["tagged"]);
  assert.deepEqual(await ids({ attributes: ["customer!=ada, or not"] }), []);
  await assert.rejects(ids({ attributes: ["amount"] }), code("TFY0270"));
  await assert.rejects(client.submit("nap", 0, { deadline: 0 }), code("TFY0273"));
});

test("the events of a run end with it", async () => {
  await client.submit("nap", 0.3, { id: "watched" });
  const seen: Item[] = [];
  for await (const item of client.events({ run: "watched", from: 0 })) seen.push(item);
  const stages = seen.map((item) => (item.type === "event" ? item.event.stage : item.type));
  assert.deepEqual([stages[0], stages.at(-1)], ["ReceivedInstruction", "Completed"]);
});

test("a fork has another answer, and a run is removed", async () => {
  await client.submit("nap", 0, { id: "parent" });
  await client.result("parent");
  const fork = await client.fork("parent", 1, { id: "its fork" });
  assert.equal(await client.result(fork.uuid), 0);
  await client.remove(fork.uuid);
  await assert.rejects(client.show(fork.uuid), code("TFY0130"));
});

test("waits and events go on after a restart", async () => {
  await using other = await new Daemon().start();
  const client = new Client(other.url);
  await client.submit("nap", 1.5, { id: "nap" });
  const events = client.events();
  const first = events.next();
  await client.submit("nap", 0, { id: "before" });
  assert.equal((await first).value?.type, "event");
  const result = client.result("nap");
  await other.kill();
  await new Promise((resolve) => setTimeout(resolve, 300));
  await other.start();
  assert.equal(await result, 1.5);
  for (;;) {
    const { value } = await events.next();
    if (value?.type === "restarted") break;
  }
  const next = (await events.next()).value as Item;
  assert.ok(next.type === "event" && next.event.seq === 1, "everything that the new process knows follows");
  await events.return();
});

test("a token that ends in the middle of a stream", async () => {
  await using other = await new Daemon().start('require_token = true\n[limits]\nping = "300ms"\n');
  await assert.rejects(new Client(other.url).status(), code("TFY0170"));
  const { token } = other.command("token", "add", "ada", "--role", "operator", "--expires", "2s") as { token: string };
  const client = new Client(other.url, { token: async () => token });
  await client.submit("nap", 60, { id: "nap" });
  const reads = async () => {
    for await (const _ of client.events());
  };
  const ended = (error: unknown) => error instanceof TiffanyError && ["TFY0171", "TFY0172"].includes(error.code);
  await Promise.all([assert.rejects(reads(), ended), assert.rejects(client.result("nap"), ended)]);
});

const OLD = JSON.stringify({ code: "TFY0162", title: "there is no path", next: "see /docs" });
const BUSY = JSON.stringify({ code: "TFY0159", title: "the daemon is starting", next: "wait" });

test("an older daemon, and other servers", async () => {
  for (const answer of [[404, OLD], [502, "<html>"], [200, "hello"]] as [number, string][]) {
    await answering([answer], async (url) => {
      await assert.rejects(new Client(url).status(), (error) => error instanceof OldDaemonError && code("TFY0302")(error));
    });
  }
});

test("what was not begun is repeated, and what may have happened is not", async () => {
  await answering([[503, BUSY], [503, BUSY], [200, ""]], async (url, asked) => {
    await new Client(url).send("run", "name", 1);
    assert.equal(asked.length, 3);
  });
  await answering([[0, ""]], async (url, asked) => {
    await assert.rejects(new Client(url).send("run", "name", 1), (error) => error instanceof LostDaemonError && error.message.includes("may have happened"));
    assert.equal(asked.length, 1);
  });
  await answering([[0, ""], [200, '{"pid":1}']], async (url) => {
    assert.equal((await new Client(url).status()).pid, 1);
  });
  await assert.rejects(new Client("http://127.0.0.1:1", { retrySeconds: 0 }).status(), code("TFY0300"));
});

test("an address that is not one", () => {
  for (const url of ["http://example.org", "ftp://localhost", "nonsense", "http://localhost/api", "http://me@localhost"]) {
    assert.throws(() => new Client(url), (error) => error instanceof ClientSettingsError && code("TFY0303")(error), url);
  }
  assert.ok(new Client("http://example.org", { insecure: true }));
});
