/** Rows in a scrolling window, of which only those in sight are drawn. */

/** Rows drawn above and below those in sight, so that scrolling shows no gap. */
const MORE = 3;

/**
 * Draw the rows in sight, and again when the window scrolls or changes its size.
 * @param {() => number} rowHeight in pixels.
 * @param {() => number} count of all rows.
 * @param {(first: number, end: number) => void} draw
 * @returns {{refresh: () => void, show: (row: number) => void, destroy: () => void}}
 */
export function virtualRows(scroller, rowHeight, count, draw) {
  const refresh = () => {
    const height = rowHeight();
    const first = Math.max(0, Math.floor(scroller.scrollTop / height) - MORE);
    const end = Math.min(count(), Math.ceil((scroller.scrollTop + scroller.clientHeight) / height) + MORE);
    draw(first, end);
  };
  const show = (row) => {
    const top = row * rowHeight();
    const bottom = top + rowHeight();
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    const { clientHeight } = scroller;
    if (bottom > scroller.scrollTop + clientHeight) scroller.scrollTop = bottom - clientHeight;
  };
  return { refresh, show, ...onFrames(scroller, refresh) };
}

/** Call `draw` once a frame in which the window scrolled or changed its size. */
export function onFrames(scroller, draw) {
  let asked = 0;
  const ask = () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      draw();
    });
  };
  scroller.addEventListener("scroll", ask, { passive: true });
  const sizes = new ResizeObserver(ask);
  sizes.observe(scroller);
  const destroy = () => {
    cancelAnimationFrame(asked);
    sizes.disconnect();
    scroller.removeEventListener("scroll", ask);
  };
  return { destroy };
}
