/** The text, each token in the colour of its weight. */

import { weightScale } from "./colours.js";
import { ofState } from "./pointing.js";
import { TokenText } from "./token_text.js";

/** @implements {import("./view.js").View} */
export class TextView {
  /** @param {import("./view.js").Stage} stage */
  constructor(stage) {
    this.text = new TokenText(stage.panel, stage.explanation.tokens, {
      label: "Tokens. Arrow keys choose one, Escape none.",
      ...ofState(stage.state),
      describe: (token) => stage.described(this.seen, token),
    });
  }

  show(seen) {
    this.seen = seen;
    this.text.paint({ values: seen.values, at: seen.at, scale: weightScale(seen.dark), token: seen.token });
  }

  scene() {
    const { shapes, width, bottom } = this.text.shapes(34);
    return { width, height: bottom + 8, shapes };
  }

  destroy() {
    this.text.destroy();
  }
}
