// The models of the server, asked for again and again while somebody looks; and what each version takes and answers.

import { connection, getJson } from "./api.js";
import { waysToAsk } from "./inputs/kinds.js";
import { readSignatures } from "./signatures.js";

const POLL_MILLISECONDS = 2000;
const AVAILABLE = "AVAILABLE";

/** "change": the models, their versions or labels are others than before. */
export const changes = new EventTarget();

/** @type {any} the answer of page/models; null before the first */
let listed = null;
let seen = "";
/** @type {Map<string, Promise<any>>} */
const described = new Map();

/** Return the server's list of models, as last told; null before the first answer. */
export function catalog() {
  return listed;
}

/** Return a model of the list by its name. */
export function modelNamed(name) {
  return listed?.models.find((model) => model.name === name);
}

/** Return the versions of a model that answer, the newest first. */
export function answering(model) {
  const ready = model.versions.filter((each) => each.state === AVAILABLE).map((each) => each.version);
  return ready.sort((a, b) => (BigInt(a) < BigInt(b) ? 1 : -1));
}

/** Return the number of the version that a target means: its own, its label's, or the latest. */
export function versionOf(target) {
  const model = modelNamed(target.model);
  if (!model) return "";
  if (target.label) return model.labels[target.label] ?? "";
  return target.version || answering(model)[0] || "";
}

/** Return the path of a target's model: v1/models/NAME, with its version or label. */
export function pathOf({ model, version = "", label = "" }) {
  const part = label ? `/labels/${encodeURIComponent(label)}` : version ? `/versions/${version}` : "";
  return `v1/models/${encodeURIComponent(model)}${part}`;
}

/**
 * Return the signatures, the card (null if there is none) and the ways to ask of a version.
 * @param {string} model
 * @param {string} version
 */
export function describe(model, version) {
  const key = `${model}/${version}`;
  if (!described.has(key)) {
    const asked = ask(model, version);
    asked.catch(() => described.delete(key)); // or it would never be asked again
    described.set(key, asked);
  }
  return described.get(key);
}

async function ask(model, version) {
  if (!version) throw new Error(`No version of ${model} answers yet. The view “State” tells why.`);
  const metadata = await getJson(`${pathOf({ model, version })}/metadata`);
  const { card } = await getJson(`page/models/${encodeURIComponent(model)}/versions/${version}/card`);
  const signatures = readSignatures(metadata);
  return { signatures, card, ways: waysToAsk(signatures) };
}

/** Ask for the list now. */
export async function refresh() {
  const found = await getJson("page/models");
  const text = JSON.stringify(found);
  if (text === seen) return;
  seen = text;
  listed = found;
  changes.dispatchEvent(new Event("change"));
}

/** Ask for the list from now on, every two seconds while the page is visible. */
export function watch() {
  repeatWhileVisible(refresh);
  connection.addEventListener("gone", () => described.clear()); // another server may come back
}

/**
 * Do something every two seconds while the page is visible, one at a time; errors are ignored.
 * @param {() => Promise<void>} action
 * @returns {() => void} ends it
 */
export function repeatWhileVisible(action) {
  let timer = 0;
  let runs = false;
  let ended = false;
  async function turn() {
    clearTimeout(timer);
    if (ended || runs || document.hidden) return;
    runs = true;
    try {
      await action();
    } catch {
      // The connection has told of it, and the next turn may succeed.
    }
    runs = false;
    if (!ended) timer = setTimeout(turn, POLL_MILLISECONDS);
  }
  document.addEventListener("visibilitychange", turn);
  turn();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", turn);
  };
}
