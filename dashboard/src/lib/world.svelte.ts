// Data about all runs that all pages share: the single stream of events, and the open questions to
// people.
import { api } from './api';
import { Live } from './live';
import { Pace } from './pace';
import { session } from './session.svelte';
import { count } from './text';
import type { Activity, Approval } from './types';

class World {
  approvals = $state.raw<Approval[] | null>(null);
  #live: Live | null = null;
  #listeners = new Set<(batch: Activity[]) => void>();
  #approvals = new Pace(async () => {
    try {
      this.approvals = await api.approvals();
    } catch {
      // The next event, or a reconnection, repeats the request.
    }
  });

  constructor() {
    // Another person's decision emits no event, nor does a run that sleeps after it.
    setInterval(() => {
      if (!document.hidden && this.approvals?.length) this.#approvals.poke();
    }, 5000);
  }

  begin() {
    this.#live?.stop();
    this.#approvals.poke();
    this.#live = new Live(
      '/events',
      {
        events: (batch) => this.#take(batch),
        state: (state) => {
          const wasDown = session.link === 'down';
          session.link = state;
          // If only the stream is down, data is reloaded with each attempt to reconnect.
          if (state === 'down') void session.begin().then((isKnown) => isKnown && this.#again());
          if (state === 'live' && wasDown) this.#again();
        },
        gap: (why) => {
          session.gap = 'restarted' in why ? 'The daemon was restarted. Everything was reloaded.' : `${count(why.lost)} events were lost. Everything was reloaded.`;
          this.#again();
        },
      },
      { ghosts: false },
    );
  }

  #again() {
    session.era += 1;
    this.#approvals.poke();
  }

  #take(batch: Activity[]) {
    for (const listener of this.#listeners) listener(batch);
    const asking = new Set(this.approvals?.map((one) => one.run));
    const isOther = (event: Activity) => event.stage === 'AwaitingUserApproval' || asking.has(event.task_id);
    if (batch.some(isOther)) this.#approvals.poke();
  }

  /** Reloads the questions after one was decided here. */
  decided() {
    this.#approvals.poke();
  }

  /** Passes every event to the listener, until the returned function is called. */
  listen(listener: (batch: Activity[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

export const world = new World();
