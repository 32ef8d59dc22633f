/** Long computations in slices, between which the browser answers its user. */

/** The longest slice, in milliseconds: a frame of 60 a second has 16. */
const SLICE = 8;

/**
 * Run a generator to its end, in slices.
 * @template T
 * @param {Generator<unknown, T>} steps each step takes a few milliseconds at most.
 * @param {AbortSignal} [signal] stops it between two slices.
 * @returns {Promise<T>} what the generator returns.
 */
export async function inSlices(steps, signal) {
  let end = performance.now() + SLICE;
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (performance.now() < end) continue;
    await nextTask();
    signal?.throwIfAborted();
    end = performance.now() + SLICE;
  }
}

/**
 * Wait until the browser has had its turn. Timers would wait four milliseconds each time.
 * @returns {Promise<void>}
 */
export function nextTask() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
