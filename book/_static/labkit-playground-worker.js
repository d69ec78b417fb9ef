/* Runs the lab's own rules by Pyodide, away from the page, which stays quick. Everything it loads
   lies beside this file. */
const beside = (path) => new URL(path, import.meta.url);

async function start() {
  const { search } = new URL(import.meta.url);
  postMessage({ step: "Loading Python …" });
  const { loadPyodide } = await import(beside("pyodide/pyodide.mjs").href);
  const python = await loadPyodide({ indexURL: beside("pyodide/").href });
  postMessage({ step: "Loading the rules …" });
  const archive = await fetch(beside(`labkit-rules.zip${search}`));
  if (!archive.ok) throw new Error(`labkit-rules.zip cannot be had: ${archive.status}`);
  python.unpackArchive(await archive.arrayBuffer(), "zip");
  return python.pyimport("labkit.playground");
}

const started = start();
started.then(
  () => postMessage({ ready: true }),
  (error) => postMessage({ failed: String(error.message ?? error) }),
);

onmessage = async ({ data }) => {
  const playground = await started;
  const said = playground.answer(data.config, data.request, data.facts, data.name);
  postMessage({ answer: JSON.parse(said), number: data.number });
};
