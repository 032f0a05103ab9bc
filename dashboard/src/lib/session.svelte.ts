// The state of this tab: the identity of the user, the connection, the theme, and short notes.
import { api, ApiError, token } from './api';
import type { LinkState } from './live';
import type { Me, Problem, Role } from './types';

const ROLES: Role[] = ['viewer', 'operator', 'admin'];
const THEME = 'tiffany.theme';
export type Theme = 'auto' | 'light' | 'dark';

export interface Note {
  id: number;
  tone: 'good' | 'bad' | 'quiet';
  text: string;
  problem?: Problem;
}

class Session {
  me = $state<Me | null>(null);
  needsToken = $state(false);
  tokenProblem = $state<Problem | null>(null);
  link = $state<LinkState>('connecting');
  /** Why the data was reloaded; shown until it is dismissed. */
  gap = $state('');
  theme = $state<Theme>((localStorage.getItem(THEME) as Theme | null) ?? 'auto');
  notes = $state<Note[]>([]);
  /** Milliseconds since 1970, updated every second: the reference of `ago`. */
  now = $state(Date.now());
  /** Increases when everything should be reloaded. */
  era = $state(0);
  #lastNote = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now();
    }, 1000);
    token.whenRefused(() => (this.needsToken = true));
    this.setTheme(this.theme);
  }

  may(role: Role): boolean {
    return this.me !== null && ROLES.indexOf(this.me.role) >= ROLES.indexOf(role);
  }

  /** Loads the user's identity. Returns whether the daemon knows it; retries while it doesn't answer. */
  async begin(): Promise<boolean> {
    clearTimeout(this.#retry);
    try {
      this.me = await api.me();
      this.needsToken = false;
      this.tokenProblem = null;
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        this.needsToken = true;
        if (token.get()) this.tokenProblem = error.problem;
      } else {
        this.#retry = setTimeout(() => void this.begin(), 2000);
      }
      return false;
    }
  }

  leave() {
    token.forget();
    this.me = null;
    this.needsToken = true;
    this.tokenProblem = null;
  }

  setTheme(theme: Theme) {
    this.theme = theme;
    localStorage.setItem(THEME, theme);
    const isDark = theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
  }

  say(text: string, tone: Note['tone'] = 'good') {
    this.#note({ tone, text });
  }

  /** Shows the error of an action. */
  fail(error: unknown) {
    if (error instanceof ApiError) this.#note({ tone: 'bad', text: error.problem.title, problem: error.problem });
    else if ((error as Error)?.name !== 'AbortError') this.#note({ tone: 'bad', text: (error as Error)?.message ?? String(error) });
  }

  #note(note: Omit<Note, 'id'>) {
    const id = (this.#lastNote += 1);
    this.notes = [...this.notes.slice(-3), { ...note, id }];
    if (note.tone !== 'bad') setTimeout(() => this.putAway(id), 5000);
  }

  putAway(id: number) {
    this.notes = this.notes.filter((note) => note.id !== id);
  }
}

export const session = new Session();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => session.setTheme(session.theme));
