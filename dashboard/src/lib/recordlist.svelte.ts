// The records of a run, newest first. Without a filter any of them can be loaded at once; with one,
// page after page.
import { api, problemOf, type RecordFilter } from './api';
import { Pace } from './pace';
import type { LogRecord, Problem } from './types';
import { pagesOf, type Range } from './virtual';

const PAGE = 200;
/** The number of pages that are kept; the least recently seen are dropped first. */
const MAX_PAGES = 60;

export class RecordList {
  last = $state(0);
  total = $state(0);
  matched = $state<number | null>(null);
  found = $state.raw<LogRecord[]>([]);
  problem = $state.raw<Problem | null>(null);
  isFirst = $state(true);
  /** Increases when a page has arrived, so that rows are drawn again. */
  version = $state(0);
  #pages = new Map<number, Map<number, LogRecord>>();
  #asking = new Set<number>();
  #filter = $state.raw<RecordFilter>({});
  #next: number | null = null;
  #isLoading = false;
  #epoch = 0;
  #head = new Pace(() => this.#readHead(), 250);

  constructor(private readonly run: string) {}

  get isFiltered(): boolean {
    const { task, type, failed, text } = this.#filter;
    return Boolean(task || type || failed || text);
  }

  /** The number of rows to scroll through. */
  get count(): number {
    return this.isFiltered ? this.found.length : this.last;
  }

  show(filter: RecordFilter) {
    this.#filter = filter;
    this.#epoch += 1;
    this.#next = null;
    this.found = [];
    this.matched = null;
    this.isFirst = true;
    this.#head.poke();
  }

  again() {
    this.#head.poke();
  }

  stop() {
    this.#epoch += 1;
    this.#head.stop();
  }

  /** Returns the record of a row; undefined while it is being loaded. */
  at(index: number): LogRecord | undefined {
    if (this.isFiltered) return this.found[index];
    const seq = this.last - index;
    return this.#pages.get(Math.floor((seq - 1) / PAGE))?.get(seq);
  }

  /** Returns the row of a record. */
  rowOf(seq: number): number {
    return this.isFiltered ? this.found.findIndex((record) => record.seq === seq) : this.last - seq;
  }

  async #readHead(): Promise<void> {
    const epoch = this.#epoch;
    try {
      const page = await api.records(this.run, { ...this.#filter, order: 'desc', limit: PAGE });
      if (epoch !== this.#epoch) return this.#head.poke();
      this.total = page.total ?? page.records.length;
      this.matched = page.matched ?? null;
      if (this.isFiltered) {
        const oldest = page.records.at(-1)?.seq ?? 0;
        const rest = this.isFirst ? [] : this.found.filter((record) => record.seq < oldest);
        this.found = [...page.records, ...rest];
        if (rest.length === 0) this.#next = page.next;
      } else {
        this.#keep(page.records);
        this.last = Math.max(this.last, page.records[0]?.seq ?? 0);
      }
      this.isFirst = false;
      this.problem = null;
      this.version += 1;
    } catch (error) {
      if (epoch === this.#epoch) this.problem = problemOf(error);
    }
  }

  #keep(records: readonly LogRecord[]) {
    for (const record of records) {
      const page = Math.floor((record.seq - 1) / PAGE);
      const there = this.#pages.get(page) ?? new Map<number, LogRecord>();
      there.set(record.seq, record);
      this.#pages.delete(page);
      this.#pages.set(page, there);
    }
    for (const page of this.#pages.keys()) {
      if (this.#pages.size <= MAX_PAGES) break;
      this.#pages.delete(page);
    }
  }

  /** Requests the visible records that are not loaded. */
  need(range: Range) {
    if (this.isFiltered) {
      if (range.to >= this.found.length - 30) void this.#more();
      return;
    }
    const seqs = { from: Math.max(0, this.last - range.to), to: Math.max(0, this.last - range.from) };
    for (const page of pagesOf(seqs, PAGE)) {
      const wanted = Math.min(PAGE, this.last - page * PAGE);
      if ((this.#pages.get(page)?.size ?? 0) < wanted && !this.#asking.has(page)) void this.#readPage(page);
    }
  }

  async #readPage(page: number) {
    this.#asking.add(page);
    try {
      const told = await api.records(this.run, { order: 'desc', before: (page + 1) * PAGE + 1, limit: PAGE });
      this.#keep(told.records);
      this.version += 1;
      // Records that are missing in a whole page are no longer in the log, and not requested again.
    } catch (error) {
      this.problem = problemOf(error);
    } finally {
      setTimeout(() => this.#asking.delete(page), 1500);
    }
  }

  async #more() {
    if (this.#isLoading || this.#next === null) return;
    this.#isLoading = true;
    const epoch = this.#epoch;
    try {
      const page = await api.records(this.run, { ...this.#filter, order: 'desc', before: this.#next, limit: PAGE });
      if (epoch !== this.#epoch) return;
      this.found = [...this.found, ...page.records];
      this.#next = page.next;
    } catch (error) {
      if (epoch === this.#epoch) this.problem = problemOf(error);
    } finally {
      this.#isLoading = false;
    }
  }
}
