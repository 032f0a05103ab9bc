// All requests to the daemon: typed, with errors as its problem documents.
import type { Approval, Diff, Difference, Doubt, Effects, Me, Problem, Records, RunDetail, RunPage, Status, Step, StuckTasks, Tasks, Timeline } from './types';

/** The error of a refused request. */
export class ApiError extends Error {
  constructor(
    readonly problem: Problem,
    readonly status: number,
  ) {
    super(problem.title);
  }
}

/** The error for input that is not valid. */
export class InputError extends Error {}

/** Converts any error to the form of the daemon's problem documents. */
export function problemOf(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  if (error instanceof InputError) return { title: error.message, code: 'input', next: 'correct it and try again' };
  return { title: (error as Error)?.message ?? String(error), code: 'page', next: 'reload the page' };
}

const TOKEN = 'tiffany.token';
let onRefused: () => void = () => {};

/** The token of this tab. It is never part of a link. */
export const token = {
  get: (): string | null => sessionStorage.getItem(TOKEN),
  set: (value: string) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
  whenRefused: (what: () => void) => (onRefused = what),
};

type Query = Record<string, string | number | boolean | null | undefined>;

export function withQuery(path: string, query: Query): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false);
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

async function ask(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  const mine = token.get();
  if (mine) headers.authorization = `Bearer ${mine}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  let answer: Response;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: 'no-store' });
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiError({ title: 'the daemon cannot be reached', code: 'offline', next: 'check that its process is running; this page reconnects by itself' }, 0);
  }
  if (answer.ok) return answer;
  if (answer.status === 401) onRefused();
  throw new ApiError(await problemIn(answer), answer.status);
}

async function problemIn(answer: Response): Promise<Problem> {
  try {
    const problem = (await answer.json()) as Partial<Problem>;
    if (typeof problem.title === 'string') {
      return { title: problem.title, code: problem.code ?? String(answer.status), next: problem.next ?? '' };
    }
  } catch {
    // The answer comes from something between the daemon and this page.
  }
  return { title: `the daemon answered ${answer.status} ${answer.statusText}`, code: String(answer.status), next: 'check for a proxy between this page and the daemon' };
}

async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await ask('GET', withQuery(`/api/v1${path}`, query), undefined, signal)).json() as Promise<T>;
}

async function post<T>(path: string, body: unknown = {}): Promise<T> {
  const answer = await ask('POST', `/api/v1${path}`, body);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

const name = encodeURIComponent;
const blobPath = (run: string, hash: string) => `/api/v1/runs/${name(run)}/blobs/${name(hash)}`;

export interface RunFilter extends Query {
  state?: string;
  function?: string;
  text?: string;
  since?: string;
  before?: string;
  parent?: string;
  tag?: string;
  attribute?: string;
  sort?: string;
  order?: string;
  limit?: number;
  after?: string;
}

export interface RecordFilter extends Query {
  from?: number;
  order?: string;
  before?: number;
  limit?: number;
  task?: string;
  type?: string;
  failed?: boolean;
  text?: string;
}

export const api = {
  me: () => get<Me>('/me'),
  status: () => get<Status>('/status'),
  runs: (filter: RunFilter, signal?: AbortSignal) => get<RunPage>('/runs', filter, signal),
  run: (run: string, signal?: AbortSignal) => get<RunDetail>(`/runs/${name(run)}`, {}, signal),
  tasks: (run: string, query: { at?: number; since?: number; after?: number; limit?: number } = {}, signal?: AbortSignal) => get<Tasks>(`/runs/${name(run)}/tasks`, query, signal),
  timeline: (run: string, query: { from?: number; to?: number; width?: number; tids?: string }, signal?: AbortSignal) =>
    get<Timeline>(`/runs/${name(run)}/timeline`, query, signal),
  effects: (run: string, query: { task?: string; name?: string; state?: string; before?: number; limit?: number }, signal?: AbortSignal) =>
    get<Effects>(`/runs/${name(run)}/effects`, query, signal),
  records: (run: string, filter: RecordFilter, signal?: AbortSignal) => get<Records>(`/runs/${name(run)}/records`, filter, signal),
  step: (run: string, at: number, signal?: AbortSignal) => get<Step>(`/runs/${name(run)}/step`, { at }, signal),
  blobPath,
  blob: async (run: string, hash: string) => (await ask('GET', blobPath(run, hash))).json() as Promise<unknown>,
  blobFile: async (run: string, hash: string) => (await ask('GET', blobPath(run, hash))).blob(),
  diff: async (left: string, right: string) => diffOf(await get<unknown>('/diff', { left, right })),
  approvals: async () => (await get<{ approvals: Approval[] }>('/approvals')).approvals,
  doubts: async () => (await get<{ doubts: Doubt[] }>('/doubts')).doubts,
  stuck: (after?: string) => get<StuckTasks>('/stuck', { after }),
  metrics: async (signal?: AbortSignal) => (await ask('GET', '/metrics', undefined, signal)).text(),

  submit: (body: { function: string; id?: string; input?: unknown }) => post<{ uuid: string; id: string; new: boolean }>('/runs', body),
  cancel: (run: string) => post<void>(`/runs/${name(run)}/cancel`),
  release: (run: string) => post<void>(`/runs/${name(run)}/release`),
  send: (run: string, message: { name: string; message: unknown }) => post<void>(`/runs/${name(run)}/messages`, message),
  ask: (run: string, question: string, input: unknown) => post<{ answer: unknown }>(`/runs/${name(run)}/queries/${name(question)}`, { input }),
  settle: (promise: string, body: { value?: unknown; error?: string; run?: string }) => post<{ first: boolean }>(`/promises/${name(promise)}`, body),
  decide: (id: string, choice: string, because: string, reject: boolean) =>
    post<{ choice: string; by: string }>(`/approvals/${name(id)}/${reject ? 'reject' : 'approve'}`, { ...(reject ? {} : { choice }), ...(because ? { because } : {}) }),
  doubt: (body: { key: string; done?: unknown; failed?: string; again?: boolean }) => post<void>('/doubts', body),
  fork: (run: string, body: { at: number; id?: string; allow?: string[]; value?: unknown; error?: string; as_is?: boolean }) =>
    post<{ uuid: string; id: string }>(`/runs/${name(run)}/forks`, body),
  allow: (run: string, names: string[]) => post<void>(`/runs/${name(run)}/allow`, { names }),
  replay: (run: string) => post<unknown>(`/runs/${name(run)}/replay`),
  compact: (run: string) => post<{ bytes: number }>(`/runs/${name(run)}/compact`),
  remove: async (run: string) => void (await ask('DELETE', `/api/v1/runs/${name(run)}`)),
};

/**
 * The lines of `tiffany diff --json` as one object, whether they arrive as a list or as an object.
 */
export function diffOf(told: unknown): Diff {
  const lines = Array.isArray(told) ? told : Array.isArray((told as { lines?: unknown[] }).lines) ? (told as { lines: unknown[] }).lines : [told];
  const diff = { parting: null, same_records: 0, differences: [] as Difference[] } as unknown as Diff;
  for (const line of lines as Record<string, unknown>[]) {
    const { difference, ...rest } = line;
    Object.assign(diff, rest);
    if (difference) diff.differences.push(difference as Difference);
  }
  return diff;
}
