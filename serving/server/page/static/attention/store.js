/** What is looked at: one place that all views read and change. */

/**
 * @typedef {object} State
 * @property {"head" | "layer" | "all" | "rollout"} source of the matrix.
 * @property {number} layer from 0, as `head`.
 * @property {number} head
 * @property {number | null} token the chosen position.
 * @property {number | null} hover the position under the pointer; it is looked at before the chosen one.
 * @property {number} column the key of the matrix's chosen cell.
 * @property {"from" | "to"} direction weights of the token as a query, or as a key.
 * @property {string} base shown while no token is chosen: "average", or the number of a hop of pooling.
 * @property {"plain" | "root"} scale of the colours; "root" makes small weights visible.
 * @property {string} tab
 */

/** A state whose listeners hear of changes, once a frame at most. */
export class Store {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    this.listeners = [];
    this.asked = 0;
  }

  /** @returns {State} */
  get() {
    return this.state;
  }

  /** @param {Partial<State>} change */
  set(change) {
    const isSame = Object.entries(change).every(([name, value]) => this.state[name] === value);
    if (isSame) return;
    this.state = { ...this.state, ...change };
    this.asked ||= requestAnimationFrame(() => {
      this.asked = 0;
      for (const listener of this.listeners) listener(this.state);
    });
  }

  /** @param {(state: State) => void} listener */
  on(listener) {
    this.listeners.push(listener);
  }

  destroy() {
    cancelAnimationFrame(this.asked);
    this.listeners = [];
  }
}
