// The question for the server's token, which stays in the memory of this page alone.

import { setToken } from "./api.js";
import { element, field } from "./dom.js";

/** No server's token has it, and a browser would not send some of it in a header at all. */
const UNFIT = /[^A-Za-z0-9._~+/=-]/;

/**
 * A form that asks for a token.
 * @param {() => void} onGiven
 */
export function tokenForm(onGiven) {
  const given = element("input", { type: "password", autocomplete: "off", required: true });
  let wasGiven = false;
  const hint = element("p", { role: "alert", class: "trouble" });
  const submit = (event) => {
    event.preventDefault();
    if (UNFIT.test(given.value.trim())) {
      hint.textContent = "A token has letters, digits and ._~+/-= alone.";
      return;
    }
    setToken(given.value);
    wasGiven = true;
    onGiven();
  };
  const box = element(
    "form",
    { class: "notice", "aria-label": "Access", onsubmit: submit },
    element("h2", {}, "This server needs a token"),
    field("Token", given, "It stays in the memory of this page, and is gone when you close or reload it."),
    element("button", { type: "submit", class: "primary" }, "Use it"),
    hint,
  );
  box.hidden = true;
  return {
    element: box,
    ask() {
      if (box.hidden) {
        box.hidden = false;
        given.focus();
      }
      if (wasGiven) hint.textContent = "The server does not know this token.";
    },
    done() {
      box.hidden = true;
      given.value = "";
      hint.textContent = "";
      wasGiven = false;
    },
  };
}
