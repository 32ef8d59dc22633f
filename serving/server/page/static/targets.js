// The choice of a version: the latest, one by its number, or one by its label.

import { answering, modelNamed, versionOf } from "./catalog.js";
import { element, fill } from "./dom.js";

/** Return the targets of a model that can be asked now: its latest version, then labels, stable first, then versions. */
export function targetsOf(model) {
  const ready = answering(model);
  const labels = Object.keys(model.labels)
    .filter((label) => ready.includes(model.labels[label]))
    .sort((a, b) => Number(b === "stable") - Number(a === "stable") || a.localeCompare(b));
  return [
    { model: model.name },
    ...labels.map((label) => ({ model: model.name, label })),
    ...ready.map((version) => ({ model: model.name, version })),
  ];
}

/** Name a target, such as "stable (version 3)". */
export function nameOf(target) {
  const version = versionOf(target);
  if (target.label) return `${target.label} (version ${version || "?"})`;
  return target.version
    ? `version ${target.version}`
    : `latest (${version ? `version ${version}` : "none yet"})`;
}

/** Return true if two targets ask for the same. */
export function isSame(one, other) {
  return (
    one.model === other.model &&
    (one.version ?? "") === (other.version ?? "") &&
    (one.label ?? "") === (other.label ?? "")
  );
}

/**
 * A list from which a version is chosen.
 * @param {(target: import("./calls.js").Target, lost: import("./calls.js").Target|null) => void} onChoose told of
 *   another choice, and of the chosen one if it has gone
 */
export function targetPicker(onChoose) {
  const select = element("select", { onchange: () => choose(offered[select.selectedIndex]) });
  let offered = [];
  let chosen = null;

  function choose(target, lost = null) {
    chosen = target;
    onChoose(target, lost);
  }

  return {
    element: select,
    /** Offer the targets of a model as they are now. */
    offer(name) {
      const model = modelNamed(name);
      offered = model ? targetsOf(model) : [];
      fill(
        select,
        offered.map((each) => element("option", {}, nameOf(each))),
      );
      const place = chosen ? offered.findIndex((each) => isSame(each, chosen)) : -1;
      select.selectedIndex = Math.max(0, place);
      if (place < 0 && offered.length) choose(offered[0], chosen?.model === name ? chosen : null);
    },
    chosen: () => chosen,
  };
}
