/* The admission playground: a form and the JSON behind it, which is what the rules read. They run
   in a worker, started when the reader asks for it; each change is decided anew. */
(function () {
  "use strict";

  const worker = new URL("labkit-playground-worker.js", document.currentScript.src);
  const PARTS = ["Request", "RuntimeFacts"];
  const WAIT_MS = 150;

  /* What a control says, as a JSON value; undefined where it is left empty. */
  function valueOf(control) {
    const text = control.value.trim();
    if (text === "") return undefined;
    switch (control.dataset.kind) {
      case "bool": return text === "true";
      case "int": case "float": return Number(text);
      case "texts": return text.split(",").map((item) => item.trim()).filter(Boolean);
      case "ints": return text.split(",").map(Number);
      default: return text;
    }
  }

  function textOf(value) {
    if (value === undefined || value === null) return "";
    return Array.isArray(value) ? value.join(", ") : String(value);
  }

  function objectIn(text) {
    try {
      const value = JSON.parse(text);
      return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
    } catch {
      return null;
    }
  }

  class Playground {
    constructor(root) {
      this.root = root;
      this.known = JSON.parse(root.querySelector("script").textContent);
      this.texts = Object.fromEntries([...root.querySelectorAll("[data-text]")]
        .map((area) => [area.dataset.text, area]));
      [this.case, this.checkpoint] = root.querySelectorAll("#labkit-case, #labkit-checkpoint");
      this.asked = 0;
      this.listen();
      this.startFrom(this.known.cases[this.case.value]);
    }

    find(name) {
      return this.root.querySelector(`.labkit-playground-${name}`);
    }

    listen() {
      this.find("start").addEventListener("click", () => this.start());
      this.case.addEventListener("change", () => {
        this.startFrom(this.known.cases[this.case.value]);
        this.ask();
      });
      this.checkpoint.addEventListener("change", () => {
        this.texts.config.value = this.known.configs[this.checkpoint.value];
        this.ask();
      });
      for (const part of PARTS) {
        this.form(part).addEventListener("input", (event) => this.write(part, event.target));
        this.texts[part].addEventListener("input", () => this.read(part));
      }
      for (const area of Object.values(this.texts)) {
        area.addEventListener("input", () => this.ask());
      }
    }

    form(part) {
      return this.root.querySelector(`fieldset[data-part="${part}"]`);
    }

    startFrom(chosen) {
      this.checkpoint.value = chosen.spec;
      this.texts.config.value = this.known.configs[chosen.spec];
      // How each fact was learned goes without saying: here somebody types it.
      const { provenance, ...facts } = chosen.facts;
      this.texts.Request.value = JSON.stringify(chosen.request, null, 1);
      this.texts.RuntimeFacts.value = JSON.stringify(facts, null, 1);
      PARTS.forEach((part) => this.read(part));
    }

    /* From the form into the JSON … */
    write(part, control) {
      const object = objectIn(this.texts[part].value);
      const value = valueOf(control);
      if (value === undefined) delete object[control.name];
      else object[control.name] = value;
      this.texts[part].value = JSON.stringify(object, null, 1);
      this.ask();
    }

    /* … and back. Text that is no object cannot be shown in the form, which rests until it is. */
    read(part) {
      const object = objectIn(this.texts[part].value);
      this.form(part).disabled = object === null;
      this.texts[part].setAttribute("aria-invalid", String(object === null));
      if (object === null) return;
      for (const control of this.form(part).querySelectorAll("[data-kind]")) {
        control.value = textOf(object[control.name]);
      }
    }

    start() {
      this.find("start").disabled = true;
      this.root.querySelector("progress").hidden = false;
      if (location.protocol === "file:") {
        this.fail("a browser starts no Python from a folder. Serve the site, for instance with "
          + "python3 -m http.server, and open it from there");
        return;
      }
      worker.searchParams.set("v", this.root.dataset.version);
      this.worker = new Worker(worker, { type: "module" });
      this.worker.onerror = (event) => this.fail(event.message ?? "its script cannot be loaded");
      this.worker.onmessage = ({ data }) => this.hear(data);
    }

    hear({ step, ready, failed, answer, number }) {
      if (step) this.say(step);
      if (failed) this.fail(failed);
      if (ready) {
        this.root.dataset.state = "ready";
        this.root.querySelector("progress").hidden = true;
        this.say("Running: every change is decided at once, by the lab's own rules.");
        this.ask();
      }
      if (answer && number === this.asked) this.show(answer);
    }

    say(text) {
      this.find("status").textContent = text;
    }

    fail(why) {
      this.root.dataset.state = "error";
      this.root.querySelector("progress").hidden = true;
      this.find("start").disabled = false;
      this.say(`Not started: ${why}.`);
    }

    ask() {
      if (this.root.dataset.state !== "ready") return;
      this.root.dataset.answered = "";
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        const { config, Request: request, RuntimeFacts: facts } = this.texts;
        this.asked += 1;
        this.worker.postMessage({
          config: config.value, request: request.value, facts: facts.value,
          name: this.checkpoint.value, number: this.asked,
        });
      }, WAIT_MS);
    }

    show({ outcome, summary, html, decision }) {
      const line = this.find("summary");
      line.dataset.outcome = outcome;
      line.textContent = summary;
      // Made by labkit.playground, which escapes every text it was given.
      this.find("reasons").innerHTML = html;
      this.find("json").hidden = decision === null;
      this.find("json").querySelector("pre").textContent = JSON.stringify(decision, null, 1);
      this.root.dataset.answered = this.asked;
    }
  }

  document.querySelectorAll("div.labkit-playground").forEach((root) => new Playground(root));
})();
