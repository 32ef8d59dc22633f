// Calls of the server. All of them go to the origin of the page, have a deadline, and bear the token, if there is one.

import { parseExact } from "./exact_json.js";

const CALL_SECONDS = 300; // the server has a limit of its own, and answers with it
const POLL_SECONDS = 8;
const MOST_REASON = 2000; // characters
const GATEWAYS = new Set([502, 503, 504]); // the server itself says 503 and 504, too, in JSON

/** "gone" and "back": the server does not answer, and answers again. "token": it wants one. */
export const connection = new EventTarget();

// In memory only: it is gone with the page.
let token = "";
let isGone = false;

/** An answer that says why there is none. */
export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The server did not answer. */
export class Unreachable extends Error {}

/** Use a token from now on. */
export function setToken(text) {
  token = text.trim();
}

/** Return the header that bears the token; none without one. */
function authorization() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** GET JSON from a path relative to the page. */
export async function getJson(path) {
  return JSON.parse(await getText(path));
}

/** GET text. */
export async function getText(path) {
  return (await call(path, { method: "GET" }, (answer) => answer.text(), POLL_SECONDS)).body;
}

/** POST JSON and return the answer as JSON; numbers that JSON lacks become null. */
export async function postJson(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", body: writeJson(body), headers, signal };
  return readJson((await call(path, options, (answer) => answer.text())).body);
}

/** Write JSON, with NaN as the server reads it. */
export function writeJson(value) {
  if (Array.isArray(value)) return `[${value.map(writeJson).join(", ")}]`;
  if (value && typeof value === "object") {
    return `{${Object.entries(value)
      .map(([key, item]) => `${JSON.stringify(key)}: ${writeJson(item)}`)
      .join(", ")}}`;
  }
  return Number.isNaN(value) ? "NaN" : JSON.stringify(value);
}

/** Parse the server's JSON, which may hold NaN and Infinity as Python writes them, and integers of 64 bits. */
export function readJson(text) {
  try {
    return parseExact(text);
  } catch {
    // Strings match first and as a whole, so that words in them stay.
    const strings = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;
    return parseExact(text.replace(strings, (found) => (found.startsWith('"') ? found : "null")));
  }
}

/**
 * Call a path relative to the page.
 * @param {string} path
 * @param {RequestInit} options
 * @param {(response: Response) => Promise<any>} read reads the body of an answer.
 * @param {number} [seconds] the deadline, of the body as well.
 * @returns {Promise<{headers: Headers, body: any}>}
 */
export async function call(path, { headers = {}, signal, ...options }, read, seconds = CALL_SECONDS) {
  const sent = { ...headers, ...authorization() };
  const deadline = AbortSignal.timeout(seconds * 1000);
  const signals = signal ? AbortSignal.any([signal, deadline]) : deadline;
  const settings = { ...options, headers: sent, signal: signals, credentials: "omit", cache: "no-store" };
  let response, body;
  try {
    response = await fetch(path, settings);
    body = await (response.ok ? read(response) : response.text()); // the server may go in the middle
  } catch (error) {
    if (signal?.aborted) throw error;
    note(true);
    const late = `The server has not answered within ${seconds} s.`;
    throw new Unreachable(deadline.aborted ? late : "The server does not answer.");
  }
  const reason = response.ok ? "" : reasonOf(body);
  if (GATEWAYS.has(response.status) && reason === null) {
    note(true);
    throw new Unreachable(`The server does not answer: a proxy says ${response.status}.`);
  }
  note(false);
  if (response.ok) return { headers: response.headers, body };
  if (response.status === 401) connection.dispatchEvent(new Event("token"));
  throw new ServerError(response.status, (reason ?? body).slice(0, MOST_REASON) || `status ${response.status}`);
}

function note(now) {
  if (now === isGone) return;
  isGone = now;
  connection.dispatchEvent(new Event(now ? "gone" : "back"));
}

/** Return the server's own words; null for those of another, such as a proxy. */
function reasonOf(text) {
  try {
    return String(JSON.parse(text).error);
  } catch {
    return null;
  }
}
