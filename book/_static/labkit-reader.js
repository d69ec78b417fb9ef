/* Shows one first difference: both continuations side by side, and the best tokens with their
   logits. The texts come from the page; everything is written as text, never as markup. */
(function () {
  "use strict";

  function make(name, text, attributes = {}) {
    const part = document.createElement(name);
    if (text !== undefined) part.textContent = text;
    for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
    return part;
  }

  function column(title, entry, who) {
    const box = make("section");
    const text = make("p", entry.before, { class: "labkit-reader-text" });
    const after = entry[`${who}_after`];
    text.append(make("mark", entry[`${who}_token`]), after ?? "");
    box.append(make("h3", title), text);
    if (after === null) {
      box.append(make("p", "A second pass did not come to the same difference, so its own "
        + "continuation is not shown.", { class: "labkit-reader-note" }));
    }
    return box;
  }

  function table(entry) {
    const rows = make("table");
    const head = rows.createTHead().insertRow();
    for (const title of ["token", "baseline's logit", "this run's logit"]) {
      head.append(make("th", title, { scope: "col" }));
    }
    const body = rows.createTBody();
    for (const candidate of entry.candidates) {
      const row = body.insertRow();
      const name = make("th", undefined, { scope: "row" });
      name.append(make("code", JSON.stringify(candidate.token)));
      row.append(name);
      for (const who of ["baseline", "variant"]) {
        const value = candidate[who].toFixed(3);
        const best = Math.max(...entry.candidates.map((other) => other[who])) === candidate[who];
        row.append(best ? cellOf(make("strong", value)) : make("td", value));
      }
    }
    return rows;
  }

  function cellOf(part) {
    const cell = make("td");
    cell.append(part);
    return cell;
  }

  function show(reader, entry) {
    const shown = reader.querySelector(".labkit-reader-shown");
    const pair = make("div", undefined, { class: "labkit-reader-pair" });
    pair.append(column("Baseline", entry, "baseline"), column(entry.option, entry, "variant"));
    const place = `They part at step ${entry.first_divergence}; the baseline led by `
      + `${entry.margin_at_divergence} logits, and the other token is number ${entry.rank} in it.`;
    shown.replaceChildren(pair, make("p", place), table(entry));
  }

  function fill(select, names) {
    const before = select.value;
    select.replaceChildren(...[...new Set(names)].map((name) => new Option(name, name)));
    if (names.includes(before)) select.value = before;
  }

  function start(reader) {
    const entries = JSON.parse(reader.querySelector("script").textContent);
    const [option, prompt] = reader.querySelectorAll("select");
    const update = () => {
      const ofOption = entries.filter((entry) => entry.option === option.value);
      fill(prompt, ofOption.map((entry) => entry.prompt));
      show(reader, ofOption.find((entry) => entry.prompt === prompt.value));
    };
    fill(option, entries.map((entry) => entry.option));
    option.addEventListener("change", update);
    prompt.addEventListener("change", update);
    update();
    reader.dataset.state = "ready";
  }

  document.querySelectorAll("div.labkit-reader").forEach(start);
})();
