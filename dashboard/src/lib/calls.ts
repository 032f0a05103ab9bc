// The targets of each kind of system call.

export const TARGETS: [string, readonly string[]][] = [
  ['Scheduler', ['yield', 'get_tid', 'get_handlers', 'spawn', 'wait', 'wait_task', 'gather', 'race', 'cancel', 'kill_task', 'create_group', 'join_group', 'charge']],
  ['Timers and clock', ['sleep', 'sleep_until', 'now']],
  ['Steps', ['effect']],
  ['Promises and channels', ['create_promise', 'complete_promise', 'fail_promise', 'create_external_promise', 'create_channel', 'send', 'receive', 'receive_message']],
  ['Locks', ['create_mutex', 'create_semaphore', 'acquire']],
  ['Descriptors', ['read_wait', 'write_wait']],
  ['Store and log', ['get', 'put', 'tell', 'ask', 'get_log', 'random', 'new_uuid', 'patched', 'continue_as']],
  ['People', ['approve']],
  ['Activity', ['show']],
];

const BY_CALL = new Map(TARGETS.flatMap(([target, calls]) => calls.map((call) => [call, target] as const)));

export function targetOf(call: string): string {
  return BY_CALL.get(call) ?? 'Others';
}

export interface CallSums {
  target: string;
  total: number;
  rate: number;
  calls: { call: string; total: number; rate: number }[];
}

/** Groups calls by their target, the busiest first; calls that were never made are left out. */
export function grouped(calls: readonly { call: string; total: number; rate: number }[]): CallSums[] {
  const groups = new Map<string, CallSums>();
  for (const one of calls) {
    if (one.total <= 0) continue;
    const target = targetOf(one.call);
    const group = groups.get(target) ?? { target, total: 0, rate: 0, calls: [] };
    group.total += one.total;
    group.rate += one.rate;
    group.calls.push(one);
    groups.set(target, group);
  }
  for (const group of groups.values()) group.calls.sort((a, b) => b.total - a.total);
  return [...groups.values()].sort((a, b) => b.total - a.total);
}
