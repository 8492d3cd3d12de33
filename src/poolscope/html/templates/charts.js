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

  // On a dark page a color is as far from the paper as it is from white on a light one; hue and strength stay. Rules
  // say so of each color that is drawn: what is printed or saved stays as it was drawn, for paper.
  const dark = new CSSStyleSheet({ media: "screen and (prefers-color-scheme: dark)" });
  document.adoptedStyleSheets.push(dark);
  const PAPER = 0.21; // lightness of the dark paper, in Oklab
  const DARKEST = 0.28; // of the ink on white, which becomes:
  const LIGHTEST = 0.94;
  const known = new Set();
  const pencil = document.createElement("canvas").getContext("2d");

  function turn(svg) {
    for (const what of ["fill", "stroke", "stop-color"])
      for (const mark of svg.querySelectorAll(`[${what}]`)) {
        const color = mark.getAttribute(what);
        if (known.has(what + color) || !CSS.supports("color", color) || color === "transparent") continue;
        known.add(what + color);
        dark.insertRule(`.chart svg.marks [${what}="${CSS.escape(color)}"] { ${what}: ${turned(color)}; }`);
      }
  }

  function turned(color) {
    pencil.fillStyle = color; // which writes it as #rrggbb
    const part = (i) => parseInt(pencil.fillStyle.slice(i, i + 2), 16) / 255;
    const [r, g, b] = [1, 3, 5].map((i) => (part(i) > 0.04045 ? ((part(i) + 0.055) / 1.055) ** 2.4 : part(i) / 12.92));
    const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    const lightness = 0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s;
    const green = 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s;
    const blue = 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s;
    // pale lines gain more: the eye tells dark colors apart less well
    const light = PAPER + (LIGHTEST - PAPER) * ((1 - lightness) / (1 - DARKEST)) ** 0.8;
    return `oklab(${light.toFixed(4)} ${green.toFixed(4)} ${blue.toFixed(4)})`;
  }

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
    turn(place.querySelector("svg.marks"));
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
