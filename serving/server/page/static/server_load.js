// The load of the server, of its own metrics: rate, latencies, batches, and what waits.

import { catalog, repeatWhileVisible } from "./catalog.js";
import { getText } from "./api.js";
import { lineChart } from "./charts.js";
import { element, fill, foreign, number } from "./dom.js";
import { gained, histogram, parseMetrics, quantile, total, valuesOf } from "./metrics.js";

const WINDOW_SECONDS = 60;
const LATENCY = "request_latency";
const BATCH = "batching_session:processed_batch_size";
const QUANTILES = [0.5, 0.95, 0.99];
const OWN = /^GetModel/; // calls about models, which this page makes itself

/** A part of the page with the load of the last minute; it asks for metrics between `begin` and `end`. */
export function loadPart() {
  const figures = element("dl", { class: "figures" });
  const chart = element("div", { class: "rate" });
  const calls = element("tbody");
  const note = element("p", { class: "note" });
  const head = ["Model", "Call", "Requests/s", "Median", "95 %", "99 %"].map((name) =>
    element("th", { scope: "col" }, name),
  );
  const table = element(
    "div",
    { class: "scrolls", tabindex: 0, role: "region", "aria-label": "Load by call" },
    element("table", {}, element("thead", {}, element("tr", {}, head)), calls),
  );
  const box = element("div", {}, figures, chart, table, note);
  /** @type {{time: number, metrics: ReturnType<typeof parseMetrics>}[]} */
  let looks = [];
  let end = null;

  async function look() {
    const path = catalog()?.metrics_path;
    if (path === "") {
      note.textContent = "The metrics are off: --monitoring_config_file says so.";
      return;
    }
    if (!path) return;
    add(parseMetrics(await getText(path.replace(/^\//, ""))));
    show();
  }

  function add(metrics) {
    const latest = looks.at(-1);
    if (latest && requests(metrics) < requests(latest.metrics)) looks = []; // the server has started anew
    const time = performance.now() / 1000;
    looks = [...looks.filter((each) => time - each.time <= WINDOW_SECONDS), { time, metrics }];
  }

  function show() {
    const [first, now] = [looks[0], looks.at(-1)];
    const seconds = now.time - first.time;
    const since = seconds > 0 ? `of the last ${Math.round(seconds)} s` : "since the server's start";
    const before = seconds > 0 ? first.metrics : new Map();
    const rates = looks
      .slice(1)
      .map(
        (each, place) =>
          (requests(each.metrics) - requests(looks[place].metrics)) / (each.time - looks[place].time),
      );
    fill(figures, figureList(now.metrics, before, seconds));
    fill(chart, rates.length > 1 && rateChart(rates));
    fill(calls, callRows(now.metrics, before, seconds));
    note.textContent = `Figures ${since}, of all processes of the server. Latencies are the server's own, without the network, and interpolated between bounds that are 1.8 times apart.`;
  }

  return {
    element: box,
    begin() {
      end ??= repeatWhileVisible(look);
    },
    end() {
      end?.();
      end = null;
    },
  };
}

function rateChart(rates) {
  const title = `Requests per second, at most ${rounded(Math.max(...rates))}`;
  return [
    element("p", { class: "note", "aria-hidden": "true" }, title),
    lineChart([rates], title, [{ zero: true }]),
  ];
}

function inferences(metrics) {
  return valuesOf(metrics, `${LATENCY}_count`, "API").filter((api) => !OWN.test(api));
}

function requests(metrics) {
  return inferences(metrics).reduce((sum, api) => sum + total(metrics, `${LATENCY}_count`, { API: api }), 0);
}

function figureList(now, before, seconds) {
  const asked = requests(now) - requests(before);
  const failed = errors(now) - errors(before);
  const sizes = gained(histogram(now, BATCH), histogram(before, BATCH));
  const runs = sizes.at(-1)?.[1] ?? 0;
  const rows = total(now, `${BATCH}_sum`) - total(before, `${BATCH}_sum`);
  const pairs = [
    ["Requests/s", seconds > 0 ? rounded(asked / seconds) : "–"],
    ["Requests", number(asked)],
    ["Errors", number(failed)],
    ...QUANTILES.map((share) => [
      share === 0.5 ? "Median latency" : `${100 * share} % within`,
      milliseconds(quantile(allLatencies(now, before), share)),
    ]),
    ["Waiting", number(total(now, "waiting_requests"))],
    ["Rows in a batch", runs ? rounded(rows / runs) : "–"],
    ["95 % of batches", runs ? `≤ ${number(Math.ceil(quantile(sizes, 0.95)))} rows` : "–"],
  ];
  return pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
}

function errors(metrics) {
  return valuesOf(metrics, "request_count", "status")
    .filter((status) => status !== "OK")
    .reduce((sum, status) => sum + total(metrics, "request_count", { status }), 0);
}

function allLatencies(now, before) {
  const sums = new Map();
  for (const api of inferences(now)) {
    for (const [bound, count] of gained(
      histogram(now, LATENCY, { API: api }),
      histogram(before, LATENCY, { API: api }),
    )) {
      sums.set(bound, (sums.get(bound) ?? 0) + count);
    }
  }
  return [...sums].sort(([a], [b]) => a - b);
}

function callRows(now, before, seconds) {
  const found = [];
  for (const model of valuesOf(now, `${LATENCY}_count`, "model_name")) {
    for (const api of inferences(now)) {
      for (const entrypoint of valuesOf(now, `${LATENCY}_count`, "entrypoint")) {
        const wanted = { model_name: model, API: api, entrypoint };
        const counts = gained(histogram(now, LATENCY, wanted), histogram(before, LATENCY, wanted));
        const count = counts.at(-1)?.[1] ?? 0;
        if (!count) continue;
        found.push(
          element(
            "tr",
            {},
            element("td", {}, foreign(model)),
            element("td", {}, `${api} over ${entrypoint === "GRPC" ? "gRPC" : entrypoint}`),
            element("td", { class: "figure" }, seconds > 0 ? rounded(count / seconds) : "–"),
            QUANTILES.map((share) =>
              element("td", { class: "figure" }, milliseconds(quantile(counts, share))),
            ),
          ),
        );
      }
    }
  }
  return found.length
    ? found
    : [element("tr", {}, element("td", { colspan: 6 }, "No request in this time."))];
}

function milliseconds(microseconds) {
  return Number.isFinite(microseconds) ? `${rounded(microseconds / 1000)} ms` : "–";
}

function rounded(value) {
  return number(Number(value.toPrecision(value < 100 ? 2 : 3)));
}
