// What all pages need of all runs: the one stream of everybody's events, and the questions that wait for a person.
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
      // The next event, or the link coming back, asks again.
    }
  });

  constructor() {
    // A decision of somebody else is no event; a run that then sleeps tells nothing.
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
          // Where only the stream is missing, what can be asked for is asked for with each attempt at it.
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

  /** Asks for the questions again: one was decided here. */
  decided() {
    this.#approvals.poke();
  }

  /** Tells every event from now on, until the answer is called. */
  listen(listener: (batch: Activity[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

export const world = new World();
