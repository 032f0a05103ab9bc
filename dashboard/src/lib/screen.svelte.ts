// The width of the window, for what style sheets cannot decide: heights of rows and numbers of
// columns.
class Screen {
  width = $state(innerWidth);
  readonly isNarrow = $derived(this.width < 720);
  readonly isWide = $derived(this.width >= 1200);

  constructor() {
    addEventListener('resize', () => (this.width = innerWidth));
  }
}

export const screen = new Screen();
