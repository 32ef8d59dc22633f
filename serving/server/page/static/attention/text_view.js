/** The text, each token in the colour of its weight. */

import { weightScale } from "./colours.js";
import { ofState } from "./pointing.js";
import { TokenText } from "./token_text.js";

/**
 * @param {import("./view.js").Stage} stage
 * @returns {import("./view.js").View}
 */
export function textView(stage) {
  const { explanation, state } = stage;
  /** @type {import("./view.js").Seen | null} */
  let seen = null;
  const text = new TokenText(stage.panel, explanation.tokens, {
    label: "Tokens. Arrow keys choose one, Escape none.",
    ...ofState(state),
    describe: (token) => stage.described(seen, token),
  });
  return {
    show(now) {
      seen = now;
      text.paint({ values: now.values, at: now.at, scale: weightScale(now.dark), token: now.token });
    },
    scene() {
      const { shapes, width, bottom } = text.shapes(34);
      return { width, height: bottom + 8, shapes };
    },
    destroy: () => text.destroy(),
  };
}
