/* What a reader picks in a chart: reached from the keyboard, kept when the chart is drawn anew, and
   shared by the charts of a page that know the same names. */
(function () {
  "use strict";

  const SHARED = ["kind", "option"];
  const views = new Map();

  function take(figure, view, before) {
    if (before) keep(before, view);
    views.set(figure, view);
    // The figure says what it shows; Vega would say it a second time.
    const drawing = figure.querySelector(".labkit-chart-view");
    ["role", "aria-label", "aria-roledescription"].forEach((name) => drawing.removeAttribute(name));
    for (const part of drawing.querySelectorAll("[role^='graphics-']")) {
      ["role", "aria-roledescription"].forEach((name) => part.removeAttribute(name));
    }
    reach(drawing.querySelector("svg"));
    for (const name of SHARED) {
      if (has(view, name)) follow(figure, view, name);
    }
  }

  /* A selection NAME has a store of tuples; a list bound to it has a signal for its field. */
  function has(view, name) {
    return picked(view, name) !== undefined;
  }

  function picked(view, name) {
    try {
      return view.data(`${name}_store`).map((tuple) => tuple.values);
    } catch {
      return undefined;
    }
  }

  function signalOf(view, name) {
    try {
      return view.signal(name) === undefined ? null : name;
    } catch {
      return null;
    }
  }

  function pick(view, name, tuples) {
    const listed = signalOf(view, `${name}_${name}`);
    if (listed) view.signal(listed, tuples.length ? tuples[0].values[0] : null);
    view.data(`${name}_store`, tuples.map((tuple) => ({ ...tuple })));
    return view.runAsync();
  }

  function keep(from, to) {
    for (const name of SHARED) {
      if (has(from, name) && has(to, name)) pick(to, name, from.data(`${name}_store`));
    }
    for (const name of ["measure", "near_tie"]) {
      if (signalOf(from, name) && signalOf(to, name)) to.signal(name, from.signal(name)).runAsync();
    }
  }

  function follow(figure, view, name) {
    view.addDataListener(`${name}_store`, (_, tuples) => {
      if (views.get(figure) !== view) return;
      const values = JSON.stringify(picked(view, name));
      for (const [other, target] of views) {
        if (other === figure || !has(target, name)) continue;
        if (JSON.stringify(picked(target, name)) !== values) pick(target, name, tuples);
      }
    });
  }

  /* A legend that picks is a row of buttons; the rest of the drawing is in the table behind it. */
  function reach(svg) {
    const labels = svg.querySelectorAll("[class*='_legend_labels'] text");
    if (!labels.length) return;
    for (const part of svg.querySelectorAll(".role-axis, .role-mark, .role-title")) {
      part.setAttribute("aria-hidden", "true");
    }
    for (const label of labels) {
      label.closest(".role-legend").removeAttribute("aria-hidden");
      label.setAttribute("role", "button");
      label.setAttribute("tabindex", "0");
      label.setAttribute("aria-label", `Show only ${label.textContent}`);
      label.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        label.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      });
    }
  }

  window.labkitChoices = { take };
})();
