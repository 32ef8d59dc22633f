// The page: its views, the choice of the model, and the connection to the server.

import { connection } from "./api.js";
import { catalog, changes, modelNamed, refresh, watch } from "./catalog.js";
import { compareView } from "./compare_view.js";
import { element, fill, foreign } from "./dom.js";
import { stateView } from "./state_view.js";
import { tokenForm } from "./token_form.js";
import { tryView } from "./try_view.js";

const views = { try: tryView(), compare: compareView(), state: stateView() };
const main = document.getElementById("main");
const heading = element("h1", { class: "offscreen" });
const banner = document.getElementById("banner");
const models = element("select", { "aria-label": "Model", onchange: () => go(shownView(), models.value) });
const lost = element("p", { class: "notice", role: "status" });
const token = tokenForm(() => refresh().catch(() => {}));

/** Return the view and the model in the address, #VIEW/MODEL, and names of its parts that are unknown. */
function place() {
  const [view, model = "", ...more] = location.hash.slice(1).split("/").map(decoded);
  const isView = Object.hasOwn(views, view);
  const unknown = [];
  if (view && !isView) unknown.push(`the view “${view}”`);
  if (model && !modelNamed(model)) unknown.push(`the model “${model}”`);
  if (more.length) unknown.push(`“${more.join("/")}” after the model`);
  return [isView ? view : "try", model, unknown];
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody has changed the address
  }
}

function shownView() {
  return place()[0];
}

function go(view, model) {
  location.hash = `#${view}/${encodeURIComponent(model)}`;
}

function chosenModel() {
  const [, model] = place();
  return modelNamed(model)?.name ?? catalog()?.models[0]?.name ?? "";
}

function show() {
  const [view, , unknown] = place();
  for (const [name, each] of Object.entries(views)) {
    each.element.hidden = name !== view || !catalog();
    each.show?.(name === view);
  }
  for (const link of document.querySelectorAll("nav a")) {
    const name = link.hash.slice(1).split("/")[0];
    link.hash = `#${name}/${encodeURIComponent(chosenModel())}`;
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  heading.textContent = `${views[view].title} ${chosenModel()}`;
  lost.hidden = !unknown.length || !catalog();
  const shown = `${views[view].title}${chosenModel() && ` with ${chosenModel()}`}`;
  fill(lost, "Unknown in the address: ", foreign(unknown.join(", ")), `. Shown is ${shown}.`);
  document.title = `${heading.textContent} – keras-selfattn`;
  update();
}

function update() {
  if (!catalog()) return;
  const names = catalog().models.map(({ name }) => name);
  if (names.join("\n") !== [...models.options].map(({ value }) => value).join("\n")) {
    fill(
      models,
      names.map((name) => element("option", { value: name }, name)),
    );
  }
  models.value = chosenModel();
  views[shownView()].update(chosenModel());
}

connection.addEventListener("gone", () => {
  fill(
    banner,
    element(
      "p",
      { class: "gone" },
      "The server does not answer. Nothing you wrote is lost; the page tries again every 2 seconds.",
    ),
  );
});
connection.addEventListener("back", () => {
  fill(banner, element("p", { class: "back" }, "The server answers again."));
  refresh() // other versions may have come back
    .catch(() => {})
    .finally(update);
  setTimeout(() => banner.querySelector(".back") && fill(banner), 4000);
});
connection.addEventListener("token", token.ask);
changes.addEventListener("change", () => {
  token.done();
  document.getElementById("footer").textContent =
    `keras-selfattn ${catalog().server}. This page only reads: nothing of the server is changed here.`;
  show();
});
addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part after # is the view
  main.focus();
});

fill(document.getElementById("picker"), element("label", {}, "Model ", models));
fill(
  main,
  heading,
  lost,
  token.element,
  Object.values(views).map((view) => view.element),
);
show();
watch();
