// Calls of the server. All of them go to the origin of the page, have a deadline, and bear the token, if there is one.

const CALL_SECONDS = 300; // the server has a limit of its own, and answers with it
const POLL_SECONDS = 8;

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
export function authorization() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** GET JSON from a path relative to the page. */
export async function getJson(path) {
  return (await call(path, { method: "GET" }, POLL_SECONDS)).json();
}

/** GET text. */
export async function getText(path) {
  return (await call(path, { method: "GET" }, POLL_SECONDS)).text();
}

/** POST JSON and return the answer as JSON; numbers that JSON lacks become null. */
export async function postJson(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", body: writeJson(body), headers, signal };
  return readJson(await (await call(path, options, CALL_SECONDS)).text());
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

/** Parse the server's JSON, which may hold NaN and Infinity as Python writes them. */
export function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    // Strings match first and as a whole, so that words in them stay.
    const strings = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;
    return JSON.parse(text.replace(strings, (found) => (found.startsWith('"') ? found : "null")));
  }
}

async function call(path, { headers = {}, signal, ...options }, seconds) {
  const sent = { ...headers, ...authorization() };
  const deadline = AbortSignal.timeout(seconds * 1000);
  const signals = signal ? AbortSignal.any([signal, deadline]) : deadline;
  const settings = { ...options, headers: sent, signal: signals, credentials: "omit", cache: "no-store" };
  let response;
  try {
    response = await fetch(path, settings);
  } catch (error) {
    if (signal?.aborted) throw error;
    note(true);
    const late = `The server has not answered within ${seconds} s.`;
    throw new Unreachable(deadline.aborted ? late : "The server does not answer.");
  }
  note(false);
  if (response.ok) return response;
  if (response.status === 401) connection.dispatchEvent(new Event("token"));
  throw new ServerError(response.status, await reason(response));
}

function note(now) {
  if (now === isGone) return;
  isGone = now;
  connection.dispatchEvent(new Event(now ? "gone" : "back"));
}

async function reason(response) {
  const text = await response.text().catch(() => "");
  try {
    return JSON.parse(text).error || text;
  } catch {
    return text || `${response.status} ${response.statusText}`;
  }
}
