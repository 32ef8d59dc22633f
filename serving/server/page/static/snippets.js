// The call as other programs make it: curl, Python, and keras-selfattn query; to the letter.

import { element, fill } from "./dom.js";
import { writeJson } from "./api.js";
import { catalog, versionOf } from "./catalog.js";

const DEFAULT = "serving_default";
const SHOWN = 2000; // characters; all are copied
const MOST_ARGUMENT = 100_000; // bytes: Linux takes 128 KiB in one argument
const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;

/** Quote a word for a POSIX shell. */
export function quoted(word) {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Return a value as a Python literal. */
export function python(value) {
  if (value === null || Number.isNaN(value)) return 'float("nan")';
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    if (Object.keys(value).join() === "b64") return `base64.b64decode(${python(value.b64)})`;
    return `{${Object.entries(value)
      .map(([key, item]) => `${python(key)}: ${python(item)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value);
}

/** Return the command of curl for a call. */
export function curlCommand({ path, body }, server = catalog()) {
  const url = new URL(path, document.baseURI).href;
  const words = ["curl", "-s"];
  if (server.rest_tls) words.push("--cacert", "authority.pem");
  const token = server.needs_token ? ` -H "Authorization: Bearer $TOKEN"` : "";
  const json = writeJson(body);
  if (bytes(json) <= MOST_ARGUMENT) return `${words.join(" ")}${token} -d ${quoted(json)} ${quoted(url)}`;
  return `${words.join(" ")}${token} --data-binary @- ${quoted(url)} <<'END'\n${json}\nEND`;
}

/** Return the program for this project's client; it asks over gRPC. */
export function pythonProgram(call, server = catalog()) {
  const { target, signature, verb, body, asked } = call;
  const names = [...(server.grpc_tls ? ["TLS"] : []), "Client", ...(target.label ? ["Label"] : [])];
  const lines = [`from keras_selfattn.serving.client import ${names.join(", ")}`, ""];
  const needs = [];
  let inputs = body.inputs ?? body.instances;
  if (asked.files) {
    needs.push("from pathlib import Path");
    inputs = null;
  } else if (JSON.stringify(inputs ?? "").includes('"b64"')) needs.push("import base64");
  if (server.needs_token) needs.unshift("import os");
  const given = [python(address(server)), python(target.model), ...settings(server)];
  const which = target.label
    ? `, version=Label(${python(target.label)})`
    : target.version
      ? `, version=${target.version}`
      : "";
  const named = signature === DEFAULT ? "" : `, ${python(signature)}`;
  if (verb !== "predict") return "# The client's classify and regress take rows; see docs/client.md.";
  const written = asked.files
    ? `{${python(Object.keys(body.inputs)[0])}: [Path(name).read_bytes() for name in ${python(asked.files)}]}`
    : python(inputs);
  return [
    ...needs,
    ...(needs.length ? [""] : []),
    ...lines,
    `with Client(${given.join(", ")}) as client:`,
    `    print(client.predict(${written}${named}${which}))`,
  ].join("\n");
}

function settings(server) {
  const found = [];
  if (server.grpc_tls) found.push('tls=TLS(ca="authority.pem")');
  else if (!LOOPBACK.test(location.hostname)) found.push("insecure=True");
  if (server.needs_token) found.push(`metadata={"authorization": f"Bearer {os.environ['TOKEN']}"}`);
  return found;
}

/** Return the command `keras-selfattn query`, or a comment if a shell cannot hold the rows. */
export function queryCommand(call, server = catalog()) {
  const { target, signature, asked } = call;
  if (asked.words.includes(null))
    return "# keras-selfattn query asks a row of the model's only input; see docs/client.md.";
  if (asked.words.some((word) => word.includes("\0"))) return "# No command can have a character NUL in a word.";
  const words = ["keras-selfattn", "query", target.model, "--target", address(server)];
  if (target.label) words.push("--label", target.label);
  else if (target.version) words.push("--version", target.version);
  if (signature !== DEFAULT) words.push("--signature", signature);
  if (server.grpc_tls) words.push("--tls", "--ca", "authority.pem");
  else if (!LOOPBACK.test(location.hostname)) words.push("--insecure");
  if (asked.isPairs) words.push("--pair");
  const token = server.needs_token ? ` --header "authorization: Bearer $TOKEN"` : "";
  const command = words.map(quoted).join(" ") + token;
  if (asked.words.every((word) => bytes(word) <= MOST_ARGUMENT) && asked.words.length <= 1000) {
    return `${command} -- ${asked.words.map(quoted).join(" ")}`;
  }
  if (asked.isPairs) return "# These texts are too long for a command. Write them into a file, for --file.";
  if (asked.words.some((word) => word.includes("\n")))
    return "# This text has lines and is too long for a command.";
  const end = asked.words.includes("END") ? "END-OF-ROWS" : "END";
  return `${command} <<'${end}'\n${asked.words.join("\n")}\n${end}`;
}

function address({ grpc_port: port }) {
  return `${location.hostname}:${port}`;
}

function bytes(text) {
  return new TextEncoder().encode(text).length;
}

/** A place that shows a call in the three forms, each with a button that copies it. */
export function snippetsView() {
  const forms = { curl: curlCommand, Python: pythonProgram, "keras-selfattn query": queryCommand };
  const blocks = Object.entries(forms).map(([title, write]) => ({ write, ...block(title) }));
  const note = element("p", { class: "note" });
  const box = element(
    "details",
    { class: "snippets" },
    element("summary", {}, element("h2", {}, "The same call from a terminal or a program")),
    blocks.map((each) => each.element),
    note,
  );
  let call = null;

  function write() {
    if (!box.open || !call) return;
    for (const each of blocks) each.show(each.write(call));
    const latest = !call.target.version && !call.target.label;
    note.textContent = [
      latest ? `Without a version the latest is asked, now ${versionOf(call.target)}.` : "",
      call.asked.titles.length > 64 ? "This page asks 64 rows at a time; these ask all rows at once." : "",
      catalog().needs_token ? "TOKEN is a variable of the shell that holds your token." : "",
    ]
      .filter(Boolean)
      .join(" ");
  }

  box.addEventListener("toggle", write);
  return {
    element: box,
    show(next) {
      call = next;
      box.hidden = !next;
      write();
    },
  };
}

function block(title) {
  const code = element("code", { dir: "ltr" });
  const said = element("span", { role: "status", class: "said" });
  let whole = "";
  const copy = element(
    "button",
    {
      type: "button",
      "aria-label": `Copy ${title}`,
      onclick: async () => {
        said.textContent = (await copied(whole))
          ? "Copied"
          : "Your browser does not allow it: select the text";
        setTimeout(() => (said.textContent = ""), 3000);
      },
    },
    "Copy",
  );
  const shown = element("pre", { tabindex: 0, dir: "ltr" }, code);
  return {
    element: element("section", { class: "snippet" }, element("h3", {}, title), copy, said, shown),
    show(text) {
      whole = text;
      const left = text.length - SHOWN;
      fill(
        code,
        left > 0 ? `${text.slice(0, SHOWN)} … ${left} characters more, which Copy takes along` : text,
      );
    },
  };
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without TLS, browsers have no clipboard for pages of other machines.
    const area = element("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
