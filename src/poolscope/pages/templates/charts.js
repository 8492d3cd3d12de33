// Draws every picture of the page as SVG, as wide as its place. Its specification stands inside it, or is handed over:
// Charts.draw(box, spec) puts a new picture where an old one was.
const Charts = (() => {
  const ROOM = 64; // of the left axis, about: the drawing is measured and its panels widened or narrowed

  const options = (name) => ({
    renderer: "svg",
    ast: true, // expressions are interpreted, never made into code: the page's policy forbids that
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
    i18n: { CLICK_TO_VIEW_ACTIONS: "Save this picture", SVG_ACTION: "Save as SVG", PNG_ACTION: "Save as PNG" },
    scaleFactor: { svg: 1, png: 3 },
    downloadFileName: name,
    tooltip: { id: "answer", disableDefaultStyle: true },
    loader: { load: () => Promise.reject(new Error("a picture of this page fetches nothing")) },
  });

  const handed = new WeakMap();

  function draw(box, spec) {
    handed.set(box, JSON.stringify(spec));
    delete box.dataset.wide;
    watch.observe(box);
    return redraw(box);
  }

  async function redraw(box) {
    const text = handed.get(box) ?? box.querySelector("script").textContent;
    const spec = JSON.parse(text);
    const wide = Math.floor(box.clientWidth);
    if (!wide || box.dataset.wide === String(wide)) return null;
    box.dataset.wide = wide;
    const { panels, least, legend, entry } = spec.usermeta;
    const columns = Math.max(1, Math.min(panels, Math.floor(wide / least)));
    const beside = wide - ROOM;
    const panel = spec.spec ?? spec;
    if (spec.spec) spec.columns = columns;
    spec.config.legend.columns = legend <= beside ? 0 : Math.max(1, Math.floor(beside / entry)); // 0: one row
    panel.width = Math.max(beside / columns - spec.config.facet.spacing, 40);
    const place = document.createElement("div");
    place.className = "drawing";
    place.style.visibility = "hidden"; // until it is finished the old one stands
    place.style.position = "absolute";
    box.append(place);
    const { view } = await vegaEmbed(place, spec, options(box.dataset.name));
    const taken = Number(place.querySelector("svg.marks").getAttribute("width"));
    view.signal(spec.spec ? "child_width" : "width", panel.width + Math.floor((wide - taken) / columns));
    await view.resize().runAsync();
    if (handed.has(box) && handed.get(box) !== text) {
      place.remove(); // a newer one is under way
      return null;
    }
    box.querySelectorAll(".drawing").forEach((old) => old !== place && old.remove());
    place.removeAttribute("style");
    box.chart?.finalize();
    box.chart = view;
    box.dataset.drawn = "";
    return view;
  }

  const watch = new ResizeObserver((changes) => changes.forEach(({ target }) => redraw(target)));
  (async () => {
    for (const box of document.querySelectorAll(".chart:has(> script)")) {
      await redraw(box);
      watch.observe(box);
    }
  })();
  return { draw };
})();
