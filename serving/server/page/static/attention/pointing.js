/** Choosing a position with the keyboard or the pointer, the same in all views. */

import { element } from "../dom.js";

/**
 * Return the position that a key leads to.
 * @param {string} key
 * @param {number | null} now the chosen one.
 * @param {number} last
 * @param {Record<string, number>} steps how far each arrow key goes.
 * @returns {number | null | undefined} null for none, undefined for a key without a meaning.
 */
export function reached(key, now, last, steps) {
  if (key === "Escape") return null;
  if (key === "Home") return 0;
  if (key === "End") return last;
  if (!(key in steps)) return undefined;
  if (now === null) return steps[key] > 0 ? 0 : last;
  const next = now + steps[key];
  return next < 0 || next > last ? now : next;
}

/**
 * Make a box in which one of the positions is chosen, as on a slider.
 * @param {import("./view.js").Stage} stage
 * @param {string} kind of position.
 * @param {(event: any) => number | undefined} under
 * @param {(key: string, now: number | null, last: number) => number | null | undefined} key
 */
export function slider({ state, explanation }, kind, under, key, child) {
  const last = explanation.shape[1] - 1;
  const attributes = {
    class: "attention-window",
    role: "slider",
    "aria-label": `${kind}. Arrow keys choose one, Escape none.`,
    "aria-valuemin": 0,
    "aria-valuemax": last,
    ...pointing({ ...ofState(state), under, key: (event) => key(event.key, shownOf(state), last) }),
  };
  return element("div", attributes, [child]);
}

/** Say which position of a slider is chosen. */
export function tell(box, stage, seen) {
  box.setAttribute("aria-valuenow", String(seen.token ?? 0));
  box.setAttribute("aria-valuetext", seen.token === null ? "none" : stage.described(seen, seen.token));
}

/**
 * Return the attributes of a box in which the pointer and keys choose a position: `under` and `key` return that
 * of an event; `hover` and `choose` are told of it.
 */
export function pointing({ under, key, hover, choose }) {
  return {
    tabindex: 0,
    onpointermove: (event) => {
      const found = event.pointerType === "touch" ? undefined : under(event);
      if (found !== undefined) hover(found);
    },
    onpointerleave: () => hover(null),
    onclick: (event) => choose(under(event) ?? null),
    onkeydown: (event) => {
      const found = key(event);
      if (found === undefined) return;
      event.preventDefault();
      choose(found);
    },
  };
}

/** Return the position that is looked at. */
export function shownOf(state) {
  const { hover, token } = state.get();
  return hover ?? token;
}

/** Return the position of the element under the pointer. */
export function tokenUnder(event) {
  const token = event.target.dataset?.token;
  return token === undefined ? undefined : Number(token);
}

/** Return what is looked at in a state, and the changes of what is pointed at and what is chosen. */
export function ofState(state) {
  return {
    now: () => shownOf(state),
    hover: (hover) => state.set({ hover }),
    choose: (token) => state.set({ token, hover: null }),
  };
}
