// The client: one method for each thing that can be asked of a daemon.

import type { RunDetail, RunPage, RunSummary, Status, Submitted } from "./api.js";
import { OldDaemonError, RunFailedError } from "./errors.js";
import { type EventOptions, type Item, events } from "./events.js";
import { type CallOptions, type ClientOptions, Http } from "./http.js";

export type State = RunSummary["state"];

/** The value of an attribute. A whole number is an integer. */
export type AttributeValue = string | number | boolean | Date;

/** What a run is started with. */
export interface SubmitOptions extends CallOptions {
  id?: string;
  tags?: string[];
  attributes?: Record<string, AttributeValue>;
  /** When the run fails if it has not ended: a moment, or seconds from its start. */
  deadline?: Date | number;
}

/** Which runs are listed. */
export interface ListOptions extends CallOptions {
  state?: State | State[];
  function?: string;
  /** What id, function or UUID contain. */
  text?: string;
  since?: Date | string;
  before?: Date | string;
  /** Only the forks of this run. */
  parent?: string;
  /** Tags that the runs have, all of them. */
  tags?: string[];
  /** Values that they have, or conditions such as `amount>=10`. */
  attributes?: Record<string, AttributeValue> | string[];
  sort?: "started" | "ended" | "id" | "function";
  order?: "asc" | "desc";
  /** How many runs one request fetches. 100 by default. */
  page?: number;
}

/** A question that waits for a person. */
export interface OpenApproval {
  id: string;
  run: string;
  run_id?: string;
  tid: number;
  question: string;
  choices: string[];
  payload?: unknown;
  since: string;
  deadline?: string | null;
}

/** What was decided. */
export interface Approval {
  choice: string;
  by: string;
  why?: string;
  rejected?: boolean;
}

/** A step that may or may not have happened. */
export interface Doubt {
  key: string;
  run: string;
  run_id: string | null;
  step: string;
  attempt: number;
  waits: boolean;
}

const LONG_WAIT_SECONDS = 30;
const API = "/api/v1";

/**
 * A daemon. `run` is a UUID or the id that the run was started with.
 *
 * ```ts
 * const client = new Client("https://host:8787", { token });
 * const run = await client.submit("greet", { name: "Ada" }, { id: "greet-1" });
 * console.log(await client.result<string>(run.uuid));
 * ```
 */
export class Client {
  readonly #http: Http;

  constructor(url: string, options: ClientOptions = {}) {
    this.#http = new Http(url, options);
  }

  #get<T>(path: string, options: CallOptions): Promise<T> {
    return this.#http.json<T>({ method: "GET", path: API + path, isSafe: true, signal: options.signal });
  }

  #post<T>(path: string, body: object, options: CallOptions, isSafe = false): Promise<T> {
    return this.#http.json<T>({ method: "POST", path: API + path, body, isSafe, signal: options.signal });
  }

  /** Returns the status of the daemon: its version, its functions, paused runs. */
  status(options: CallOptions = {}): Promise<Status> {
    return this.#get("/status", options);
  }

  /**
   * Starts a run, or finds the one that has this id. Without an id it gets a random one. A new run has these tags and attributes, and
   * fails if it has not ended at its deadline.
   */
  submit(name: string, input: unknown = null, options: SubmitOptions = {}): Promise<Submitted> {
    // With an id it is the same run however often it is asked for.
    const id = options.id ?? crypto.randomUUID();
    return this.#post("/runs", { function: name, id, input, ...started(options) }, options, true);
  }

  /** Iterates over the runs that fit all filters, fetching pages as they are needed. */
  async *list(options: ListOptions = {}): AsyncGenerator<RunSummary, void, undefined> {
    const query = new URLSearchParams();
    const states = Array.isArray(options.state) ? options.state.join(",") : options.state;
    const asked: Record<string, string | undefined> = {
      state: states || undefined,
      function: options.function,
      text: options.text,
      since: moment(options.since),
      before: moment(options.before),
      parent: options.parent,
      tag: list(options.tags?.map((tag) => JSON.stringify(tag))),
      attribute: list(conditions(options.attributes)),
      sort: options.sort,
      order: options.order,
      limit: options.page === undefined ? undefined : String(options.page),
    };
    for (const [name, value] of Object.entries(asked)) if (value !== undefined) query.set(name, value);
    for (;;) {
      const page = await this.#get<RunPage>(`/runs?${query}`, options);
      yield* page.runs;
      if (page.next === undefined || page.next === null) return;
      query.set("after", page.next);
    }
  }

  /** Returns a run with its tasks and what they wait for, or with its value. */
  show(run: string, options: CallOptions = {}): Promise<RunDetail> {
    return this.#get(`/runs/${part(run)}`, options);
  }

  /**
   * Waits for the outcome of a run and returns its value. Throws a `RunFailedError` if it failed, was cancelled, is paused or held,
   * and a `TimeoutError` (a DOMException) after `timeoutSeconds`.
   */
  async result<T = unknown>(run: string, options: CallOptions & { timeoutSeconds?: number } = {}): Promise<T> {
    const until = Date.now() + (options.timeoutSeconds ?? Infinity) * 1000;
    for (;;) {
      const left = Math.min(LONG_WAIT_SECONDS, Math.max(0, Math.ceil((until - Date.now()) / 1000)));
      const shown = await this.#get<RunDetail>(`/runs/${part(run)}?wait=${left}`, options);
      if (shown.state === undefined) throw new OldDaemonError("the state of a run");
      if (shown.state === "completed") return shown.value as T;
      if (shown.state !== "live" && shown.state !== "ending") {
        const { code, message } = shown.error ?? { code: "TFY0001", message: `the run is ${shown.state}` };
        throw new RunFailedError(shown.uuid, shown.state, code, message);
      }
      if (Date.now() >= until) throw new DOMException(`run ${run} has not ended within ${options.timeoutSeconds} s`, "TimeoutError");
      if (shown.state === "ending") await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Sends a message to a run. */
  send(run: string, name: string, message: unknown, options: CallOptions = {}): Promise<void> {
    return this.#post(`/runs/${part(run)}/messages`, { name, message: message ?? null }, options);
  }

  /** Asks a run something, which it answers from its memory. */
  async query<T = unknown>(run: string, name: string, input: unknown = null, options: CallOptions = {}): Promise<T> {
    const told = await this.#post<{ answer: T }>(`/runs/${part(run)}/queries/${part(name)}`, { input }, options, true);
    return told.answer;
  }

  /** Completes an external promise. Returns false if it was settled before. */
  async settle(promise: string, value: unknown, options: CallOptions & { run?: string } = {}): Promise<boolean> {
    return this.#settled(promise, { value: value ?? null }, options);
  }

  /** Fails an external promise. Returns false if it was settled before. */
  async fail(promise: string, error: string, options: CallOptions & { run?: string } = {}): Promise<boolean> {
    return this.#settled(promise, { error }, options);
  }

  async #settled(promise: string, result: object, options: CallOptions & { run?: string }): Promise<boolean> {
    const body = options.run === undefined ? result : { ...result, run: options.run };
    return (await this.#post<{ first: boolean }>(`/promises/${part(promise)}`, body, options)).first;
  }

  /** Cancels a run; a second time, ends it without waiting for its cleanup. */
  cancel(run: string, options: CallOptions = {}): Promise<void> {
    return this.#post(`/runs/${part(run)}/cancel`, {}, options);
  }

  /** Holds a run, so that it gets no turns until it is released. */
  hold(run: string, options: CallOptions & { why?: string } = {}): Promise<void> {
    return this.#post(`/runs/${part(run)}/hold`, reason(options.why), options);
  }

  /** Lets a run continue that is held. */
  release(run: string, options: CallOptions & { why?: string } = {}): Promise<void> {
    return this.#post(`/runs/${part(run)}/release`, reason(options.why), options);
  }

  /** Returns the questions that wait for a person. */
  async approvals(options: CallOptions = {}): Promise<OpenApproval[]> {
    return (await this.#get<{ approvals: OpenApproval[] }>("/approvals", options)).approvals;
  }

  /** Decides a question: with the first of two choices, or with the named one. The first answer counts. */
  approve(id: string, options: CallOptions & { choice?: string; because?: string } = {}): Promise<Approval> {
    const { choice, because } = options;
    return this.#post(`/approvals/${question(id)}/approve`, { ...(choice !== undefined && { choice }), ...(because !== undefined && { because }) }, options);
  }

  /** Decides a question with the last of its choices, which is the rejection. */
  reject(id: string, options: CallOptions & { because?: string } = {}): Promise<Approval> {
    const { because } = options;
    return this.#post(`/approvals/${question(id)}/reject`, because === undefined ? {} : { because }, options);
  }

  /** Returns the steps that may or may not have happened. */
  async doubts(options: CallOptions = {}): Promise<Doubt[]> {
    return (await this.#get<{ doubts: Doubt[] }>("/doubts", options)).doubts;
  }

  /** Decides about a step in doubt. */
  decide(key: string, decision: { done: unknown } | { failed: string } | { again: true }, options: CallOptions = {}): Promise<void> {
    return this.#post("/doubts", { key, ...decision }, options);
  }

  /** Forks a run at a record, with another answer if one is given. */
  fork(run: string, at: number, options: CallOptions & { id?: string; value?: unknown; error?: string; allow?: string[] } = {}): Promise<{ uuid: string; id: string }> {
    const { signal: _, ...body } = options;
    return this.#post(`/runs/${part(run)}/forks`, { at, ...body }, options);
  }

  /** Allows a fork to execute steps. */
  allow(run: string, names: string[], options: CallOptions = {}): Promise<void> {
    return this.#post(`/runs/${part(run)}/allow`, { names }, options, true);
  }

  /** Removes a finished run. */
  remove(run: string, options: CallOptions = {}): Promise<void> {
    return this.#http.json({ method: "DELETE", path: `${API}/runs/${part(run)}`, isSafe: false, signal: options.signal });
  }

  /** Iterates over live events, of one run until it has ended or of all runs, across lost connections and restarts. */
  events(options: EventOptions = {}): AsyncGenerator<Item, void, undefined> {
    return events(this.#http, options);
  }
}

function part(name: string): string {
  return encodeURIComponent(name);
}

function question(id: string): string {
  const at = id.lastIndexOf("/");
  return at < 0 ? part(id) : `${part(id.slice(0, at))}/${part(id.slice(at + 1))}`;
}

function reason(why: string | undefined): object {
  return why === undefined ? {} : { why };
}

/** What a run is started with, without what is not given: older daemons do not know it. */
function started({ tags, attributes, deadline }: SubmitOptions): object {
  const values = Object.entries(attributes ?? {}).map(([name, value]) => [name, value instanceof Date ? { time: value.toISOString() } : value]);
  return {
    ...(tags !== undefined && tags.length > 0 && { tags }),
    ...(values.length > 0 && { attributes: Object.fromEntries(values) }),
    ...(deadline !== undefined && { deadline: deadline instanceof Date ? deadline.toISOString() : deadline }),
  };
}

function list(parts: string[] | undefined): string | undefined {
  return parts?.join(",") || undefined;
}

/** Conditions that commas can separate: a text with a comma in it stands between quotation marks. */
function conditions(given: ListOptions["attributes"]): string[] | undefined {
  if (!Array.isArray(given)) {
    return given && Object.entries(given).map(([name, value]) => `${name}=${value instanceof Date ? value.toISOString() : JSON.stringify(value)}`);
  }
  return given.map((condition) => {
    const [, start = condition, value = ""] = /^([^=!<>]*[=!<>]=?)(.*)$/s.exec(condition) ?? [];
    const text = value.trim();
    return text.includes(",") && !text.startsWith('"') ? start + JSON.stringify(text) : condition;
  });
}

function moment(given: Date | string | undefined): string | undefined {
  return given instanceof Date ? given.toISOString() : given;
}
