// Requests with `fetch`: the address, the token, and what is tried again.

import { ClientSettingsError, LostDaemonError, OldDaemonError, ofProblem } from "./errors.js";

export interface ClientOptions {
  /** The token, or what returns it: it is asked for each request, so that it can be replaced. */
  token?: string | (() => string | Promise<string>);
  /** How long, in seconds, requests that can be repeated safely are repeated while a daemon restarts. 10 by default. */
  retrySeconds?: number;
  /** Allows `http:` to another machine, unencrypted. */
  insecure?: boolean;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
}

/** What can be said of a single call. */
export interface CallOptions {
  /** Ends the call. */
  signal?: AbortSignal;
}

export interface Ask {
  method: "GET" | "POST" | "DELETE";
  path: string;
  body?: unknown;
  accept?: string;
  headers?: Record<string, string>;
  /** Whether it comes to the same however often it is asked. */
  isSafe: boolean;
  signal?: AbortSignal | undefined;
}

const ANSWER_SECONDS = 100;
/** What a daemon answers that has not begun a request. */
const NOT_BEGUN = new Set(["TFY0158", "TFY0159", "TFY0161", "TFY0250"]);

export class Http {
  readonly url: string;
  readonly retrySeconds: number;
  readonly #token: ClientOptions["token"];
  readonly #fetch: typeof fetch;

  constructor(url: string, options: ClientOptions) {
    const parsed = parse(url);
    if (parsed.protocol === "http:" && !options.insecure && !isLoopback(parsed.hostname)) {
      throw new ClientSettingsError(`${url} would send the token and all values unencrypted to another machine`, "use https, or set `insecure`");
    }
    this.url = parsed.origin;
    this.retrySeconds = options.retrySeconds ?? 10;
    this.#token = options.token;
    this.#fetch = options.fetch ?? fetch;
  }

  /** Sends a request, again where that is safe, and returns the answer if it is not a refusal. */
  async send(ask: Ask): Promise<Response> {
    const until = Date.now() + this.retrySeconds * 1000;
    for (let pause = 50; ; pause = Math.min(pause * 2, 1000)) {
      const answer = await this.#once(ask, Date.now() >= until);
      if (answer) return answer;
      await sleep(pause, ask.signal);
    }
  }

  /** Sends a request, and returns its JSON. */
  async json<T>(ask: Ask): Promise<T> {
    const answer = await this.send(ask);
    const text = await answer.text();
    try {
      return (text === "" ? undefined : JSON.parse(text)) as T;
    } catch {
      throw new OldDaemonError(`${what(ask)}: it did not answer JSON`);
    }
  }

  /** `undefined`: it is to be tried again. */
  async #once(ask: Ask, isLast: boolean): Promise<Response | undefined> {
    const headers: Record<string, string> = { accept: ask.accept ?? "application/json", ...ask.headers };
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
    if (ask.body !== undefined) headers["content-type"] = "application/json";
    const init: RequestInit = { method: ask.method, headers, cache: "no-store" };
    if (ask.body !== undefined) init.body = JSON.stringify(ask.body);
    const signals = [ask.signal, ask.accept === "text/event-stream" ? undefined : AbortSignal.timeout(ANSWER_SECONDS * 1000)];
    init.signal = AbortSignal.any(signals.filter((signal) => signal !== undefined));
    let answer: Response;
    try {
      answer = await this.#fetch(this.url + ask.path, init);
    } catch (error) {
      if (ask.signal?.aborted) throw ask.signal.reason;
      const wasSent = !isRefused(error) && !ask.isSafe;
      if (isLast || wasSent) throw new LostDaemonError(this.url, wasSent, error);
      return undefined;
    }
    if (answer.ok) return answer;
    const error = ofProblem(answer.status, await answer.text(), what(ask));
    if (NOT_BEGUN.has(error.code) && !isLast) return undefined;
    throw error;
  }
}

function what(ask: Ask): string {
  return `\`${ask.method} ${ask.path.split("?")[0]}\``;
}

function parse(url: string): URL {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new ClientSettingsError(`${url} is not a URL`, "write it as https://host:8787");
  }
  if (!["http:", "https:"].includes(parsed.protocol) || parsed.pathname !== "/" || parsed.search || parsed.username) {
    throw new ClientSettingsError(`${url} is not the address of a daemon alone`, "write it as https://host:8787, without a path");
  }
  return parsed;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Whether nothing of a request was sent. */
function isRefused(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined;
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(cause?.code ?? "");
}

export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const aborted = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, milliseconds);
    if (signal?.aborted) aborted();
    else signal?.addEventListener("abort", aborted, { once: true });
  });
}
