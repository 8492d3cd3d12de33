// The explorer's page: controls make a setting, the server answers, the page shows it. Nothing is worked out here.
(() => {
  const START = JSON.parse(document.getElementById("start").textContent);
  const WAIT = 60; // milliseconds that a slider must rest before the server is asked
  const ENOUGH = 1000; // users of an answer from which on the options are played
  const PLAYING = 220; // milliseconds to a report

  const $ = (id) => document.getElementById(id);
  const TURNING = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

  // Names come from files of strangers: they are put as text, and marks that turn its direction are shown.
  const visible = (text) =>
    String(text).replace(TURNING, (mark) => `[U+${mark.codePointAt(0).toString(16).toUpperCase()}]`);

  function made(tag, options = {}, ...children) {
    const { text, ...rest } = options;
    const element = Object.assign(document.createElement(tag), rest);
    if (text !== undefined) element.textContent = visible(text);
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  async function asked(what, query = []) {
    const response = await fetch(`${what}?${new URLSearchParams(query)}`);
    const found = response.headers.get("content-type").startsWith("application/json")
      ? await response.json()
      : await response.text();
    if (!response.ok) throw new Error(found.error ?? response.statusText);
    return found;
  }

  const ENDED = "The explorer has ended: start poolscope explore again.";

  // Events of a stream as they come. A server that is busy says so, and is asked again after the time that it names.
  function listen(what, query, { event, done, wrong, busy }) {
    const left = new AbortController();
    let later = 0;
    const stream = {
      open: true,
      close() {
        stream.open = false;
        clearTimeout(later);
        left.abort();
      },
    };
    async function read() {
      const response = await fetch(`${what}?${new URLSearchParams(query)}`, { signal: left.signal });
      if (response.status === 503) {
        busy((await response.json()).error);
        later = setTimeout(begin, 1000 * Number(response.headers.get("retry-after")));
        return;
      }
      if (!response.ok) throw new Error((await response.json()).error);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ; ) {
        const { done: over, value } = await reader.read();
        if (over) throw new Error(ENDED);
        const parts = (text + value).split("\n\n");
        text = parts.pop();
        for (const part of parts) {
          if (!stream.open) return; // nobody asks for it any longer
          const data = JSON.parse(part.slice(part.indexOf("data: ") + 6));
          if (part.startsWith("event: wrong")) throw new Error(data.error);
          if (!part.startsWith("event: done")) event(data);
          else {
            stream.close();
            return done();
          }
        }
      }
    }
    const begin = () =>
      read().catch((error) => {
        if (!stream.open) return;
        stream.close();
        wrong(error instanceof TypeError ? ENDED : error.message);
      });
    begin();
    return stream;
  }

  // ---- the state, which the address carries

  const initial = () => ({ scenario: START.scenario, changes: {}, seed: START.seed, kept: [], user: 2, target: 0.05, same: "epsilon" });
  let state = initial();
  let controls = [];
  let collections = []; // each with its name and controls; none where there is a single one
  let files = []; // that the scenario names: its TOML alone does not play

  const setting = () => ({ scenario: state.scenario, changes: state.changes, seed: state.seed });

  function fromAddress() {
    if (location.hash.length < 2) return;
    try {
      const found = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      if (found && typeof found === "object") {
        state = { ...initial(), ...found };
        if (!Array.isArray(state.kept)) state.kept = [];
        if (!state.changes || typeof state.changes !== "object") state.changes = {};
        if (!(state.target > 0 && state.target < 1)) state.target = 0.05;
        if (state.same !== "error") state.same = "epsilon";
      }
    } catch {
      // an address that was cut: start over
    }
  }

  function toAddress() {
    const usual = initial();
    const shared = Object.entries(state).filter(
      ([key, value]) => ["scenario", "seed"].includes(key) || JSON.stringify(value) !== JSON.stringify(usual[key]),
    );
    const fragment = "#" + encodeURIComponent(JSON.stringify(Object.fromEntries(shared))).replaceAll("'", "%27");
    history.replaceState(null, "", fragment);
    $("link").textContent = visible(`poolscope explore '${START.opened.replaceAll("'", "'\\''")}${fragment}'`);
  }

  function change(key, value) {
    const control = everyControl().find((one) => one.key === key);
    if (JSON.stringify(value) === JSON.stringify(control.value ?? null)) delete state.changes[key];
    else state.changes[key] = value;
    moved();
  }

  const everyControl = () => [...controls, ...collections.flatMap((one) => one.controls)];

  const current = (control) => (control.key in state.changes ? state.changes[control.key] : control.value);

  // ---- controls

  const round = (value, control) =>
    control.whole ? Math.round(value) : Number(value.toPrecision((control.digits ?? 2) + 1));

  function toPlace(value, { least, most, log }) {
    return log ? (1000 * Math.log(value / least)) / Math.log(most / least) : (1000 * (value - least)) / (most - least);
  }

  function fromPlace(place, control) {
    const { least, most, log } = control;
    const part = place / 1000;
    return round(log ? least * (most / least) ** part : least + part * (most - least), control);
  }

  function range(control, value, name, changed) {
    const slider = made("input", { type: "range", min: 0, max: 1000, step: control.whole && !control.log ? "any" : 1 });
    const exact = made("input", { type: "number", min: control.least, step: "any" });
    slider.setAttribute("aria-label", name);
    exact.setAttribute("aria-label", `${name}, exactly`);
    const show = (shown) => {
      slider.value = toPlace(shown, control);
      exact.value = shown;
      slider.setAttribute("aria-valuetext", shown);
    };
    show(value);
    slider.addEventListener("input", () => {
      const found = fromPlace(Number(slider.value), control);
      exact.value = found;
      slider.setAttribute("aria-valuetext", found);
      changed(found);
    });
    exact.addEventListener("change", () => {
      const typed = Number(exact.value);
      if (exact.value === "" || !Number.isFinite(typed)) return;
      const found = control.whole ? Math.round(typed) : typed;
      slider.value = toPlace(found, control);
      changed(found);
    });
    // an arrow key moves to the next whole number, or by a hundredth of the way
    slider.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!way) return;
      event.preventDefault();
      const now = Number(exact.value);
      let next = fromPlace(Math.min(1000, Math.max(0, toPlace(now, control) + 10 * way)), control);
      if (control.whole && next === now) next = now + way;
      if (control.whole && !control.log) next = now + way;
      next = Math.min(control.most, Math.max(control.least, next));
      show(next);
      changed(next);
    });
    return [slider, exact];
  }

  // with the collection that it is of
  const called = (control) => visible(control.of ? `${control.of}: ${control.label}` : control.label);

  const FORMS = {
    choice(control) {
      const select = made("select", { id: `c-${control.key}` });
      for (const { value, text } of control.options) select.append(made("option", { value, text }));
      select.value = current(control);
      select.addEventListener("change", () => {
        change(control.key, select.value);
        able();
      });
      return [select];
    },

    slider(control) {
      const value = current(control);
      const parts = range(control, value ?? control.usual, called(control), (found) => change(control.key, found));
      if (!control.optional) return [made("div", { className: "row" }, ...parts)];
      const on = made("input", { type: "checkbox", checked: value !== null && value !== undefined });
      on.setAttribute("aria-label", `${called(control)}: on`);
      const enable = () => parts.forEach((part) => (part.disabled = !on.checked));
      on.addEventListener("change", () => {
        enable();
        change(control.key, on.checked ? Number(parts[1].value) : null);
      });
      enable();
      return [made("div", { className: "row" }, on, ...parts)];
    },

    check(control) {
      const box = made("input", { type: "checkbox", checked: Boolean(current(control)), id: `c-${control.key}` });
      box.addEventListener("change", () => change(control.key, box.checked));
      return [made("div", { className: "row" }, box, made("span", { className: "note", text: "yes" }))];
    },

    sizes(control) {
      const rows = made("div", { className: "sizes" });
      const sizes = { ...current(control) };
      for (const [pool, size] of Object.entries(sizes)) {
        const input = made("input", { type: "number", min: 1, step: 1, value: size });
        input.setAttribute("aria-label", `${control.of ? `${visible(control.of)}: ` : ""}Objects in ${visible(pool)}`);
        input.addEventListener("change", () => {
          sizes[pool] = Math.round(Number(input.value));
          change(control.key, { ...sizes });
        });
        rows.append(made("span", { text: pool }), input);
      }
      if (control.size) {
        const rest = control.size - Object.values(sizes).reduce((sum, size) => sum + size, 0);
        rows.append(made("span", { text: "objects in total" }), made("span", { text: control.size.toLocaleString("en") }));
        rows.title = `${rest.toLocaleString("en")} are neutral`;
      }
      return [rows];
    },

    curve(control) {
      const given = current(control);
      const values = [...(given?.beta ?? given)];
      const space = "http://www.w3.org/2000/svg";
      const svg = document.createElementNS(space, "svg");
      const path = document.createElementNS(space, "path");
      svg.setAttribute("class", "curve");
      svg.setAttribute("viewBox", "0 0 100 40");
      svg.setAttribute("preserveAspectRatio", "none");
      svg.setAttribute("aria-hidden", "true");
      svg.append(path);
      const redraw = () => path.setAttribute("d", density(...values));
      redraw();
      const rows = ["toward high", "toward low"].map((name, i) => {
        const form = { least: 0.2, most: 10, log: true, digits: 2 };
        const parts = range(form, values[i], `${control.label}: ${name}`, (found) => {
          values[i] = found;
          redraw();
          const flat = JSON.stringify(values) === JSON.stringify(control.value);
          change(control.key, flat ? control.value : { beta: [...values] });
        });
        return made("div", { className: "row" }, made("span", { className: "ends", text: name }), ...parts);
      });
      const ends = made("div", { className: "ends" }, made("span", { text: "none" }), made("span", { text: "all" }));
      return [svg, ends, ...rows];
    },
  };

  // the density of Beta(a, b), as high as the box at its highest point inside
  function density(a, b) {
    const points = [];
    for (let i = 0; i <= 60; i++) {
      const x = 0.01 + (0.98 * i) / 60;
      points.push([100 * x, Math.exp((a - 1) * Math.log(x) + (b - 1) * Math.log(1 - x))]);
    }
    const top = Math.max(...points.map(([, y]) => y)) * (a === 1 && b === 1 ? 2 : 1.05);
    const line = points.map(([x, y]) => `${x.toFixed(2)} ${(40 - (40 * y) / top).toFixed(2)}`).join(" L ");
    return `M 1 40 L ${line} L 99 40 Z`;
  }

  function build() {
    const place = $("controls");
    place.replaceChildren();
    const select = made("select", { id: "c-scenario" });
    for (const name of START.scenarios) select.append(made("option", { value: name, text: name }));
    select.value = state.scenario;
    select.addEventListener("change", () => {
      state = { ...state, scenario: select.value, changes: {} };
      begin();
    });
    place.append(labeled({ key: "scenario", label: "Scenario", words: "Starting point." }, [select], "c-scenario"));
    place.append(...controls.map(formed));
    $("cards").replaceChildren(...collections.map(card));
    const seed = made("input", { type: "number", step: 1, value: state.seed, id: "c-seed" });
    seed.addEventListener("change", () => {
      const found = Number(seed.value);
      if (seed.value === "" || !Number.isSafeInteger(found)) return;
      state.seed = found;
      moved();
    });
    place.append(labeled({ key: "seed", label: "Seed", words: "Same seed, same users." }, [made("div", { className: "row" }, seed)], "c-seed"));
    able();
  }

  const formed = (control) => labeled(control, control.why ? [] : FORMS[control.form](control), `c-${control.key}`);

  // a collection: its controls, and what its reports alone reveal
  function card({ name, controls: own }) {
    const further = made("details", { className: "further" }, made("summary", { text: "More settings" }));
    further.append(...own.filter((one) => one.further).map(formed));
    const numbers = made("dl", { className: "numbers-now stale" });
    const box = made("section", { className: "card" }, made("h3", { text: name }), numbers, ...own.filter((one) => !one.further).map(formed), further);
    box.setAttribute("aria-label", visible(name));
    return box;
  }

  function labeled(control, inputs, target) {
    const has = inputs.some((input) => input.id === target || input.querySelector?.(`[id="${target}"]`));
    const label = has ? made("label", { text: control.label }) : made("div", { className: "label", text: control.label });
    if (has) label.htmlFor = target;
    const box = made("div", { className: "control" }, label, made("p", { text: control.why ?? control.words }), ...inputs);
    box.dataset.key = control.key;
    if (control.of) box.title = visible(control.why ?? control.words);
    if (!has) {
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", called(control));
    }
    box.classList.toggle("off", Boolean(control.why));
    return box;
  }

  // a mechanism without an epsilon has none to choose
  function able() {
    for (const kinds of everyControl().filter((one) => one.with_epsilon)) {
      const box = document.querySelector(`[data-key="${kinds.key.replace(/kind$/, "epsilon")}"]`);
      const has = kinds.with_epsilon.includes(current(kinds));
      box.classList.toggle("off", !has);
      box.querySelectorAll("input").forEach((input) => (input.disabled = !has));
    }
  }

  // ---- answers

  let source = null;
  let timer = 0;
  let shown = null;
  const TABLES = ["by-pool", "by-collection", "added"];

  function moved() {
    toAddress();
    source?.close();
    leaveOptions();
    leaveComparison();
    stopPlaying();
    $("story").classList.add("stale");
    ["answer-box", "pictures", "options", ...TABLES].forEach((id) => $(id).classList.add("stale"));
    document.querySelectorAll(".card .numbers-now").forEach((one) => one.classList.add("stale"));
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT);
  }

  function wrong(message) {
    const status = $("status");
    status.textContent = visible(message);
    status.classList.add("wrong");
  }

  function ask() {
    source?.close();
    const began = performance.now();
    let answers = 0;
    source = listen("answers", { setting: JSON.stringify(setting()) }, {
      event(answer) {
        if (answer.pictures) return draw(answer.pictures);
        if (answers++ === 0) document.body.dataset.last = Math.round(performance.now() - began);
        present(answer);
        if (answer.users >= ENOUGH && !collections.length) askOptions();
      },
      done() {
        if (shown) settle();
        tellStory();
        if (!collections.length) askOptions();
        compare();
      },
      wrong,
      busy: (message) => ($("status").textContent = visible(message)),
    });
    tell();
  }

  function present(answer) {
    shown = answer;
    $("words").textContent = visible(answer.words);
    $("facts").replaceChildren(...answer.devices.map((text) => made("li", { text })));
    tiles($("tiles"), answer.tiles);
    $("command").textContent = visible(answer.command);
    for (const id of TABLES) {
      const table = answer[id.replace("-", "_")];
      if (!table) continue;
      numbers($(id), table);
      $(id).classList.remove("stale");
    }
    if (answer.alone) {
      document.querySelectorAll(".card .numbers-now").forEach((place, i) => tiles(place, answer.alone[i]));
      $("cautions").replaceChildren(...answer.cautions.map((text) => made("li", { text })));
      $("collections-note").textContent = visible(
        `Each collection with its controls, and what its reports alone reveal to the ${answer.adversary} adversary after ${days(answer.n)}.`,
      );
    }
    const box = $("answer-box");
    box.classList.remove("stale");
    box.dataset.users = answer.users;
    box.dataset.answer = JSON.stringify(answer.results);
    status(false);
  }

  const days = (n) => `${n.toLocaleString("en")} day${n === 1 ? "" : "s"}`;

  function tiles(place, found) {
    place.replaceChildren(
      ...found.map(({ value, label, note }) =>
        made("div", {}, made("dt", { text: label }), made("dd", { className: "value", text: value }), made("dd", { className: "interval", text: note })),
      ),
    );
    place.classList.remove("stale");
  }

  function draw(pictures) {
    $("pictures").classList.remove("stale");
    for (const [name, spec] of Object.entries(pictures)) Charts.draw($(name), spec);
  }

  function settle() {
    status(true);
    $("answer-box").dataset.done = shown.users;
  }

  function tell() {
    delete $("answer-box").dataset.done;
    $("status").classList.remove("wrong");
    $("status").textContent = "Simulating…";
  }

  function status(done) {
    const { users, waiting, adversary, n } = shown;
    const from = `From ${users.toLocaleString("en")} user${users === 1 ? "" : "s"}, ${adversary} adversary, ${collections.length ? `after ${days(n)}` : `n = ${n.toLocaleString("en")}`}`;
    const who = waiting.map(visible).join(" and ");
    const then = waiting.length
      ? `; ${who} pending (estimating the popularity)…`
      : done
        ? "."
        : "; simulating more users…";
    $("status").classList.remove("wrong");
    $("status").textContent = visible(from) + then;
  }

  // ---- tables of the server, as in the reports

  function numbers(place, { heads, groups, columns, texts, blocks }) {
    const grouped = groups.some((group) => group.text);
    const first = heads.map((text, i) => made("th", { text, scope: "col", rowSpan: grouped ? 2 : 1, className: i ? "" : "adversary" }));
    const names = columns.map((text, i) => made("th", { text, scope: "col", className: texts[i] ? "text" : "" }));
    const above = groups.map(({ text, span }) => made("th", { text, colSpan: span, ...(text ? { className: "spans", scope: "colgroup" } : {}) }));
    const head = grouped
      ? [made("tr", {}, ...first, ...above), made("tr", {}, ...names)]
      : [made("tr", {}, ...first, ...names)];
    const bodies = blocks.map(({ head: name, rows }) =>
      made(
        "tbody",
        {},
        ...rows.map((row, i) =>
          made(
            "tr",
            {},
            i ? null : made("th", { text: name, scope: "rowgroup", rowSpan: rows.length, className: "adversary" }),
            made("th", { text: row.head + (row.best ? "\u202f★" : ""), scope: "row", className: row.best ? "best" : "" }),
            ...row.cells.map(({ value, interval }, j) =>
              made("td", { text: value, className: texts[j] ? "text" : "" }, interval ? made("span", { className: "interval", text: interval }) : null),
            ),
          ),
        ),
      ),
    );
    place.replaceChildren(made("thead", {}, ...head), ...bodies);
  }

  // ---- options

  let choosing = null;
  let chosen = "";

  function leaveOptions() {
    choosing?.close();
    chosen = "";
    delete $("options").dataset.done;
  }

  // played when the answer above has many users, as both share the machine
  function askOptions() {
    const query = { setting: JSON.stringify(setting()), target: state.target, same: state.same };
    const now = JSON.stringify(query);
    if (now === chosen) return;
    leaveOptions();
    chosen = now;
    const say = (message) => ($("options-status").textContent = visible(message));
    say("Simulating the options…");
    let last = null;
    const caption = () =>
      `Exposed to the ${last.adversary} adversary. RMSE of a million devices after n events, with their cap and sampling.`;
    choosing = listen("options", query, {
      event(found) {
        last = found;
        numbers($("options"), found.table);
        $("options").classList.remove("stale");
        $("options").dataset.rows = JSON.stringify(found.rows);
        $("options-notes").replaceChildren(...found.notes.map((text) => made("li", { text })));
        $("options-prices").replaceChildren(
          ...found.prices.flatMap(([name, price]) => [made("dt", { text: name }), made("dd", { text: price })]),
        );
        say(found.pending ? `${caption()} ${found.pending} more to simulate…` : `${caption()} Simulating more users…`);
      },
      done() {
        say(caption());
        $("options").dataset.done = "";
      },
      wrong: say,
      busy: say,
    });
  }

  function showOptionControls() {
    $("target").value = Number((100 * state.target).toPrecision(6));
    $("same").value = state.same;
  }

  function optionsMoved() {
    toAddress();
    $("options").classList.add("stale");
    leaveOptions();
    if (shown && !$("answer-box").classList.contains("stale")) askOptions();
  }

  $("target").addEventListener("change", () => {
    const share = Number($("target").value) / 100;
    if (!(share > 0 && share < 1)) return showOptionControls();
    state.target = share;
    optionsMoved();
  });
  $("same").addEventListener("change", () => {
    state.same = $("same").value;
    optionsMoved();
  });

  // ---- one user

  let story = null;
  let at = Infinity; // to the end
  let player = 0;
  let asking = 0;

  async function tellStory(which = setting(), user = state.user) {
    const mine = ++asking;
    const query = [["setting", JSON.stringify(which)], ["user", user]];
    if ($("adversary").value) query.push(["adversary", $("adversary").value]);
    try {
      const found = await asked("story", query);
      if (mine !== asking) return null;
      story = found;
    } catch (error) {
      if (mine === asking) {
        $("story").hidden = true;
        $("kept").textContent = "";
        wrong(error.message);
      }
      return null;
    }
    const select = $("adversary");
    select.replaceChildren(...story.adversaries.map((name) => made("option", { value: name, text: name })));
    select.value = story.adversary;
    $("story").hidden = false;
    $("story").classList.remove("stale");
    const picks = ({ gamma, delta, pool }) =>
      `picks from the pools ${percent(gamma)} of the time (γ), ${percent(delta)} of that from ${pool} (δ)`;
    $("who").textContent = visible(
      (story.preferences
        ? `User ${story.user} has the ${story.attribute} ${story.preferred}. ` +
          story.preferences.map((one) => `In ${one.collection}, the user prefers ${one.pool}: ${picks(one)}. `).join("")
        : `User ${story.user} prefers ${story.preferred}: ${picks({ ...story, pool: story.preferred })}. `) +
        (story.exposed_after === null
          ? `Never exposed (confidence ≥ ${story.exposed_at}).`
          : `Exposed (confidence ≥ ${story.exposed_at}) after ${story.preferences ? "report" : "event"} ${story.exposed_after}.`),
    );
    $("position").max = story.steps.length;
    $("user-note").textContent = visible(
      story.facts.length
        ? `Largest Bayes factors for ${story.preferred}: ${listed(story.facts.map((event) => `report ${event}`))}.`
        : `No report supports ${story.attribute ? "the true value" : "the preferred pool"}.`,
    );
    await Charts.draw($("belief"), story.picture);
    go(at);
    $("story").dataset.user = story.user;
    return story;
  }

  const percent = (share) => `${(100 * share).toFixed(share > 0.995 || share < 0.005 ? 1 : 0)}%`;
  const listed = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);

  function go(position) {
    at = Math.max(0, Math.min(position, story.steps.length));
    $("position").value = at;
    $("position").setAttribute("aria-valuetext", `${at} of ${story.steps.length}`);
    $("back").disabled = at === 0;
    $("step").disabled = at === story.steps.length;
    const step = at ? story.steps[at - 1] : null;
    const posterior = step ? step.posterior : story.prior;
    const line = (what, text) => made("p", {}, made("span", { className: "what", text: what }), made("span", { text }));
    $("event").replaceChildren(
      ...(step
        ? [
            line(`${when(step)}: the user picks`, `${step.object} (${step.pool})`),
            line("The device sends", step.report ?? "nothing"),
            line(`Most likely ${story.attribute ?? "pool"}`, leaning(posterior)),
            line("Bayes factor", evidence(step)),
          ]
        : [line("Before the first report", "Prior only."), line(`Most likely ${story.attribute ?? "pool"}`, leaning(posterior))]),
    );
    $("bars").replaceChildren(
      made(
        "div",
        { className: "key" },
        swatch("posterior", "var(--accent)"),
        swatch("support of this report alone", "#c77700"),
      ),
      ...story.pools.map((pool, i) => bar(pool, posterior[i], step?.support?.[i])),
    );
    $("story").dataset.posterior = JSON.stringify(posterior);
    $("belief").chart?.signal("upto", at).runAsync();
  }

  const when = (step) =>
    step.collection
      ? `Report ${step.event} of ${story.steps.length}, ${step.collection}, day ${step.day}`
      : `Event ${step.event} of ${story.steps.length}`;

  function swatch(text, color) {
    const part = made("span", { text });
    part.style.setProperty("--swatch", color);
    return part;
  }

  function leaning(posterior) {
    const best = posterior.indexOf(Math.max(...posterior));
    return `${story.pools[best]}, ${percent(posterior[best])}`;
  }

  function evidence(step) {
    if (step.evidence === null) return "not reported";
    const factor = Math.exp(step.evidence);
    return `${factor >= 1000 ? "> 1,000" : factor.toPrecision(3)} (odds of ${story.preferred})`;
  }

  function bar(pool, belief, support) {
    const track = made("div", { className: "track" });
    const part = (className, share) => {
      const piece = made("div", { className });
      piece.style.width = `${100 * share}%`;
      track.append(piece);
    };
    part("belief", belief);
    if (support !== undefined) part("support", support);
    const row = made("div", { className: "bar" }, made("span", { className: "name", text: pool, title: visible(pool) }), track, made("span", { className: "number", text: percent(belief) }));
    row.classList.toggle("preferred", pool === story.preferred);
    return row;
  }

  function stopPlaying() {
    clearInterval(player);
    player = 0;
    $("play").textContent = "Play";
  }

  async function ready() {
    return story ?? (await tellStory());
  }

  $("another").addEventListener("click", async () => {
    stopPlaying();
    state.user = Math.floor(Math.random() * 100000);
    at = Infinity;
    toAddress();
    await tellStory();
  });
  $("step").addEventListener("click", async () => (await ready()) && go(at + 1));
  $("back").addEventListener("click", async () => (await ready()) && go(at - 1));
  $("position").addEventListener("input", () => story && go(Number($("position").value)));
  $("adversary").addEventListener("change", () => tellStory());
  $("play").addEventListener("click", async () => {
    if (player) return stopPlaying();
    if (!(await ready())) return;
    if (at === story.steps.length) go(0);
    $("play").textContent = "Pause";
    player = setInterval(() => {
      go(at + 1);
      if (at === story.steps.length) stopPlaying();
    }, PLAYING);
  });

  // ---- a finding to keep

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      $("kept").textContent = "Copied.";
    } catch {
      $("kept").textContent = "Copying failed: select the text instead.";
    }
  }

  $("copy-command").addEventListener("click", () => copy($("command").textContent));
  $("copy-link").addEventListener("click", () => copy($("link").textContent));
  $("download").addEventListener("click", async () => {
    try {
      const text = await asked("toml", [["setting", JSON.stringify(setting())]]);
      const link = made("a", { href: URL.createObjectURL(new Blob([text])), download: `${state.scenario}-explored.toml` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      $("kept").textContent = files.length ? visible(`Downloaded. Save it beside ${listed(files)}, which it refers to.`) : "Downloaded.";
    } catch (error) {
      wrong(error.message);
    }
  });

  let comparing = null;
  let compared = "";

  $("add").addEventListener("click", () => {
    const mine = JSON.stringify(setting());
    if (state.kept.some((one) => JSON.stringify(one) === mine)) {
      $("kept").textContent = "Already in the comparison.";
      return;
    }
    if (state.kept.length >= START.max_compared) {
      $("kept").textContent = `At most ${START.max_compared} settings: remove one first.`;
      return;
    }
    state.kept.push(JSON.parse(mine));
    toAddress();
    const stands = !source?.open;
    $("kept").textContent = stands ? "Added." : "Added: it is played when the answer above stands.";
    if (stands) compare();
  });

  function leaveComparison() {
    if (!comparing?.open) return;
    comparing.close();
    compared = "";
  }

  // played only when the answer above stands, as both share the machine
  function compare() {
    const place = $("comparison");
    const now = JSON.stringify(state.kept);
    place.hidden = !state.kept.length;
    if (now === compared) return;
    comparing?.close();
    compared = now;
    delete place.dataset.done;
    $("comparison-head").replaceChildren(
      ...["Setting", ...START.compared, ""].map((text) => made("th", { scope: "col", text })),
    );
    const rows = state.kept.map((one, i) => made("tr", {}, made("th", { scope: "row", text: one.scenario }), made("td", { colSpan: START.compared.length, text: "…" }), takeAway(i)));
    $("comparison-rows").replaceChildren(...rows);
    if (!state.kept.length) return;
    $("comparison-note").textContent = "Simulating…";
    const say = (message) => ($("comparison-note").textContent = visible(message));
    comparing = listen("comparison", state.kept.map((one) => ["setting", JSON.stringify(one)]), {
      event({ place: i, name, users, cells }) {
        const parts = cells.map(([value, interval]) => made("td", { className: "number", text: value }, made("span", { className: "interval", text: interval })));
        rows[i].replaceChildren(made("th", { scope: "row", text: name }), ...parts, takeAway(i));
        say(`First ${users.toLocaleString("en")} users of each seed; the same users in every row of one seed.`);
        place.dataset.users = users;
      },
      done: () => (place.dataset.done = ""),
      wrong: say,
      busy: say,
    });
  }

  function takeAway(i) {
    const button = made("button", { type: "button", text: "✕", title: "Remove" });
    button.setAttribute("aria-label", "Remove this setting");
    button.addEventListener("click", () => {
      state.kept.splice(i, 1);
      toAddress();
      compare();
    });
    return made("td", {}, button);
  }

  // ---- the users of a run or of a file

  const HEADS = {
    user: "User", adversary: "Adversary", n: "n", guess: "Guess", confidence: "Confidence", pool: "Prefers",
    gamma: "Interest γ", delta: "Polarization δ", exposed: "Exposed at n",
  };
  const SHARES = new Set(["confidence", "gamma", "delta"]);
  let people = null;
  let order = ["confidence", -1];

  async function openPeople() {
    if (!START.people) return;
    $("people").hidden = false;
    try {
      people = await asked("people");
    } catch (error) {
      $("people-note").textContent = visible(error.message);
      return;
    }
    const names = [...new Set(people.rows.map((row) => row[people.columns.indexOf("adversary")]))];
    $("people-adversary").append(...["all", ...names].map((name, i) => made("option", { value: i ? name : "", text: name })));
    $("people-note").textContent = visible(
      `${START.people}: ${people.users.toLocaleString("en")} users; the most confident guesses of each adversary. Select a user for the history.`,
    );
    list();
  }

  function list() {
    const [by, way] = order;
    const column = people.columns.indexOf(by);
    const wanted = $("people-filter").value.trim().toLowerCase();
    const adversary = $("people-adversary").value;
    const place = (name) => people.columns.indexOf(name);
    const texts = ["user", "guess", "pool"].map(place).filter((i) => i >= 0);
    const rows = people.rows
      .map((row, i) => [row, i])
      .filter(([row]) => !adversary || row[place("adversary")] === adversary)
      .filter(([row]) => !wanted || texts.some((i) => String(row[i] ?? "").toLowerCase().includes(wanted)));
    const less = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
    rows.sort(([a], [b]) => (a[column] === null) - (b[column] === null) || way * less(a[column], b[column]));
    $("people-head").replaceChildren(
      ...people.columns.map((name) => {
        const button = made("button", { type: "button", text: HEADS[name] + (name === "exposed" ? ` (${people.exposed_at})` : "") + (name === by ? (way > 0 ? " ▲" : " ▼") : "") });
        button.addEventListener("click", () => {
          order = [name, name === by ? -way : SHARES.has(name) ? -1 : 1];
          list();
          document.querySelector(`#people-head th:nth-child(${place(name) + 1}) button`).focus();
        });
        const head = made("th", { scope: "col" }, button);
        if (name === by) head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
        return head;
      }),
    );
    $("people-rows").replaceChildren(
      ...rows.map(([row, i]) => {
        const line = made("tr");
        people.columns.forEach((name, j) => {
          const value = row[j] === null ? "–" : SHARES.has(name) ? percent(row[j]) : row[j];
          if (name !== "user") return line.append(made("td", { text: value }));
          const button = made("button", { type: "button", text: value });
          button.addEventListener("click", () => grow(i, line));
          line.append(made("td", {}, button));
        });
        return line;
      }),
    );
  }

  async function grow(i, line) {
    document.querySelectorAll("#people tr.chosen").forEach((one) => one.classList.remove("chosen"));
    line.classList.add("chosen");
    const place = (name) => people.columns.indexOf(name);
    const row = people.rows[i];
    const user = row[place("user")];
    try {
      const found = await asked("growth", [["row", i]]);
      $("growth").hidden = false;
      $("growth-title").textContent = visible(`Confidence about ${user}`);
      await Charts.draw($("growth-chart"), found.picture);
      $("growth").dataset.rows = JSON.stringify(found.rows);
    } catch (error) {
      $("growth-note").textContent = visible(error.message);
      return;
    }
    if (!people.scenario || !/^\d+$/.test(user)) {
      $("growth-note").textContent = "The file contains no reports. For Bayes factors by report: poolscope attack REPORTS --user NAME.";
      return;
    }
    const adversary = row[place("adversary")];
    $("adversary").replaceChildren(...(adversary === "non-private" ? [] : [made("option", { value: adversary, text: adversary })]));
    at = row[place("n")];
    const which = { scenario: people.scenario, changes: { n: at }, seed: START.seed };
    const known = await tellStory(which, user);
    $("growth-note").textContent = known
      ? visible(`${$("user-note").textContent} Simulated again from the run's seed: see “One user” below.`)
      : "This run cannot be simulated here.";
  }

  $("people-filter").addEventListener("input", () => people && list());
  $("people-adversary").addEventListener("change", () => people && list());

  // ---- from the beginning

  async function begin() {
    try {
      const found = await asked("controls", [["scenario", state.scenario]]);
      ({ controls, files } = found);
      collections = found.collections.map(({ name, controls: own }) => ({ name, controls: own.map((one) => ({ ...one, of: name })) }));
      const kind = collections.length ? "several" : "one";
      document.querySelectorAll("[data-for]").forEach((part) => (part.hidden = part.dataset.for !== kind));
      $("title").textContent = visible(found.title);
      document.title = `${visible(found.title)} – poolscope explore`;
    } catch (error) {
      wrong(error.message);
      return;
    }
    story = null;
    at = Infinity;
    $("story").hidden = true;
    $("adversary").replaceChildren();
    build();
    showOptionControls();
    moved();
  }

  $("reset").addEventListener("click", () => {
    state.changes = {};
    begin();
  });
  window.addEventListener("hashchange", () => {
    fromAddress();
    begin();
  });
  if (matchMedia("(max-width: 860px)").matches) $("settings").open = false;
  fromAddress();
  begin().then(openPeople);
})();
