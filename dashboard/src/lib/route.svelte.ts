// The current page, and navigation.
import { pageOf, withPatch, type Page } from './link';

class Route {
  path = $state(location.pathname);
  query = $state.raw(new URLSearchParams(location.search));
  readonly page: Page = $derived(pageOf(this.path));

  constructor() {
    addEventListener('popstate', () => this.#read());
  }

  #read() {
    this.path = location.pathname;
    this.query = new URLSearchParams(location.search);
  }

  go(link: string, how: { replace?: boolean } = {}) {
    if (how.replace) history.replaceState(null, '', link);
    else history.pushState(null, '', link);
    const before = this.path;
    this.#read();
    if (!how.replace && before !== this.path) scrollTo(0, 0);
  }

  get(name: string): string {
    return this.query.get(name) ?? '';
  }

  /** Changes a part of the current query. */
  set(patch: Record<string, string | number | null | undefined>, how: { replace?: boolean } = { replace: true }) {
    const link = withPatch(this.path, this.query, patch);
    if (link !== location.pathname + location.search) this.go(link, how);
  }
}

export const route = new Route();
