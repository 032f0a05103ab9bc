import { describe, expect, it } from 'vitest';
import { FIRST, PART, TaskList, type Part } from '../src/lib/tasklist';
import type { Task, Tasks } from '../src/lib/types';

/** A daemon with so many tasks, each changed at some record. */
class Daemon {
  generation = 1;
  last = 1;
  changed = new Map<number, number>();
  asked: Part[] = [];

  add(many: number) {
    for (let one = 0; one < many; one += 1) this.changed.set(this.changed.size + 1, (this.last += 1));
  }

  answer = async ({ since = 0, after = 0, limit }: Part): Promise<Tasks> => {
    this.asked.push({ since, after, limit });
    const tids = [...this.changed].filter(([tid, at]) => tid > after && at > since).map(([tid]) => tid);
    const told = tids.slice(0, limit);
    const tasks = told.map((tid) => ({ tid, parent: tid === 1 ? null : 1, name: `${this.changed.get(tid)}` }) as Task);
    return { at: this.last, last: this.last, now: 0, started: '', is_over: false, generation: this.generation, total: this.changed.size, tasks, next: tids.length > limit ? told.at(-1)! : null };
  };
}

async function read(list: TaskList): Promise<Tasks[]> {
  const told: Tasks[] = [];
  await list.read((tasks) => told.push(tasks));
  return told;
}

describe('the tasks of a run', () => {
  it('come in parts, the first one small', async () => {
    const daemon = new Daemon();
    daemon.add(FIRST + PART + 5);
    const told = await read(new TaskList(daemon.answer));
    expect(told.map((one) => [one.tasks.length, one.total])).toEqual([FIRST, FIRST + PART, FIRST + PART + 5].map((length) => [length, FIRST + PART + 5]));
    expect(told.at(-1)!.tasks.map((task) => task.tid)).toEqual(Array.from({ length: FIRST + PART + 5 }, (_, index) => index + 1));
  });

  it('are not told again unless they changed', async () => {
    const daemon = new Daemon();
    daemon.add(500);
    const list = new TaskList(daemon.answer);
    await read(list);
    daemon.changed.set(7, (daemon.last += 1));
    daemon.add(1);
    const before = daemon.asked.length;
    const [told] = await read(list);
    expect(daemon.asked.slice(before)).toEqual([{ since: 501, after: 0, limit: PART }]);
    expect([told!.tasks.length, told!.tasks[6]!.name, told!.tasks[500]!.tid]).toEqual([501, '502', 501]);
  });

  it('that change while the others are read are asked for the next time', async () => {
    const daemon = new Daemon();
    daemon.add(FIRST + 1);
    const list = new TaskList(daemon.answer);
    await list.read(() => {
      if (daemon.asked.length === 1) daemon.changed.set(3, (daemon.last += 1));
    });
    const told = await read(list);
    expect(told.at(-1)!.tasks[2]!.name).toBe(String(FIRST + 3));
  });

  it('are read anew when the run has begun anew', async () => {
    const daemon = new Daemon();
    daemon.add(300);
    const list = new TaskList(daemon.answer);
    await read(list);
    daemon.generation = 2;
    daemon.changed = new Map([[1, 2]]);
    daemon.last = 400;
    const told = await read(list);
    expect(told.map((one) => one.tasks.length)).toEqual([1]);
  });
});
