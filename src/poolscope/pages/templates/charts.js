// Draws every picture of the page as SVG, as wide as its place; its specification stands inside it.
(() => {
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

  async function draw(box) {
    const spec = JSON.parse(box.querySelector("script").textContent);
    const wide = Math.floor(box.clientWidth);
    if (!wide || box.dataset.wide === String(wide)) return;
    box.dataset.wide = wide;
    const { panels, least, legend, entry } = spec.usermeta;
    const columns = Math.max(1, Math.min(panels, Math.floor(wide / least)));
    const beside = wide - ROOM;
    const panel = spec.spec ?? spec;
    if (spec.spec) spec.columns = columns;
    spec.config.legend.columns = legend <= beside ? 0 : Math.max(1, Math.floor(beside / entry)); // 0: one row
    panel.width = Math.max(beside / columns - spec.config.facet.spacing, 40);
    let place = box.querySelector(".drawing");
    if (!place) {
      place = document.createElement("div");
      place.className = "drawing";
      box.append(place);
    }
    const { view } = await vegaEmbed(place, spec, options(box.dataset.name));
    const taken = Number(place.querySelector("svg.marks").getAttribute("width"));
    view.signal(spec.spec ? "child_width" : "width", panel.width + Math.floor((wide - taken) / columns));
    await view.resize().runAsync();
    box.dataset.drawn = "";
  }

  const boxes = document.querySelectorAll(".chart");
  const watch = new ResizeObserver((changes) => changes.forEach(({ target }) => draw(target)));
  (async () => {
    for (const box of boxes) {
      await draw(box);
      watch.observe(box);
    }
  })();
})();
