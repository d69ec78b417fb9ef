/* Draws the charts of a page. Loaded only where there are some; asks no other host for anything. */
(function () {
  "use strict";

  const script = document.currentScript;
  const bundle = new URL(script.dataset.bundle, script.src).href;
  const drawn = new Map();

  function loadVega() {
    return new Promise((resolve, reject) => {
      const tag = document.createElement("script");
      tag.src = bundle;
      tag.onload = resolve;
      tag.onerror = () => reject(new Error(`cannot load ${bundle}`));
      document.head.append(tag);
    });
  }

  function colours() {
    const dark = document.documentElement.dataset.theme === "dark";
    return dark
      ? { text: "#d6dae0", quiet: "#a9b1bb", line: "#59616b", grid: "#2f363e" }
      : { text: "#22272e", quiet: "#4b5563", line: "#9aa3ad", grid: "#e3e6ea" };
  }

  function themed(width) {
    const { text, quiet, line, grid } = colours();
    const font = getComputedStyle(document.body).fontFamily;
    const narrow = width < 480;
    return {
      background: "transparent",
      aria: false,  // the figure has the text alternative, and a table behind it
      font,
      view: { stroke: null },
      axis: {
        domainColor: line, gridColor: grid, tickColor: line, labelColor: quiet, titleColor: text,
        labelFontSize: narrow ? 10 : 12, titleFontSize: narrow ? 11 : 13, titleFontWeight: 500,
        titlePadding: 8, labelOverlap: true, labelSeparation: 4,
      },
      legend: {
        labelColor: text, titleColor: text, labelFontSize: narrow ? 11 : 12, titleFontWeight: 500,
        symbolStrokeColor: quiet, symbolBaseFillColor: quiet,
        layout: { bottom: { direction: "vertical", anchor: "start" } },
      },
      text: { color: text },
      rule: { color: text },
      title: { color: text },
    };
  }

  /* A chart is made for one width; here it takes that of its column. */
  function fitted(spec, width) {
    const copy = structuredClone(spec);
    const wishes = copy.usermeta && copy.usermeta.labkit;
    if (!wishes || !wishes.fit) return copy;
    // A chart that needs more room than a phone has scrolls inside its own box.
    const room = Math.max(Math.min(width, 860), wishes.minWidth || 0);
    const limit = Math.max(90, Math.round(room * 0.38));
    if (copy.vconcat) {
      const left = Math.min(wishes.leftPx || 84, limit + 34);
      for (const part of copy.vconcat) part.width = Math.max(room - left, 150);
    } else {
      copy.width = room;
      copy.autosize = { type: "fit-x", contains: "padding" };
    }
    shorten(copy, limit, room < 480);
    return copy;
  }

  /* On a phone, long words on the left axis would leave no room for the plot. */
  function shorten(part, limit, narrow) {
    const axis = part.encoding && part.encoding.y && part.encoding.y.axis;
    if (axis && axis.labelLimit > limit) axis.labelLimit = limit;
    if (narrow) {
      for (const channel of Object.values(part.encoding || {})) {
        if (channel && channel.legend && channel.legend.columns > 2) channel.legend.columns = 2;
      }
    }
    if (narrow && part.mark && part.mark.type === "text" && part.mark.limit) {
      part.mark.limit = Math.min(part.mark.limit, 84);
      part.mark.fontSize = 9;
    }
    for (const child of part.layer || part.vconcat || []) shorten(child, limit, narrow);
  }

  async function draw(figure) {
    const view = figure.querySelector(".labkit-chart-view");
    const spec = JSON.parse(figure.querySelector(".labkit-chart-spec").textContent);
    const width = figure.clientWidth;
    const before = drawn.get(figure);
    try {
      const result = await window.vegaEmbed(view, fitted(spec, width), {
        actions: false,
        renderer: "svg",
        config: themed(width),
        tooltip: { theme: document.documentElement.dataset.theme === "dark" ? "dark" : "light" },
      });
      window.labkitChoices.take(figure, result.view, before && before.result.view);
      if (before) before.result.finalize();
      drawn.set(figure, { result, width });
      // What scrolls must be reachable from the keyboard.
      if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0;
      else figure.removeAttribute("tabindex");
      figure.dataset.state = "ready";
    } catch (error) {
      fail(figure, error);
    }
  }

  function fail(figure, error) {
    figure.dataset.state = "error";
    const note = document.createElement("p");
    note.textContent = `${figure.getAttribute("aria-label")} (Not drawn: ${error.message})`;
    figure.querySelector(".labkit-chart-view").replaceChildren(note);
    console.error(error);
  }

  function later(action, wait) {
    let timer = 0;
    return () => {
      clearTimeout(timer);
      timer = setTimeout(action, wait);
    };
  }

  async function start() {
    const figures = [...document.querySelectorAll(".labkit-chart")];
    try {
      await loadVega();
    } catch (error) {
      figures.forEach((figure) => fail(figure, error));
      return;
    }
    await Promise.all(figures.map(draw));
    new MutationObserver(later(() => figures.forEach(draw), 30)).observe(
      document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const resized = later(() => figures
      .filter((figure) => drawn.has(figure) && drawn.get(figure).width !== figure.clientWidth)
      .forEach(draw), 150);
    const observer = new ResizeObserver(resized);
    figures.forEach((figure) => observer.observe(figure));
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
