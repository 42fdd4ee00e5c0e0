"use strict";
// Live progress of a run. Without this file the page still works: it is loaded again by hand.
(() => {
  const box = document.querySelector("[data-stream]");
  if (!box) return;
  const rows = new Map();
  for (const row of box.querySelectorAll(".bar-row")) rows.set(row.firstElementChild.textContent, row);

  const rowOf = (name) => {
    if (rows.has(name)) return rows.get(name);
    const row = document.createElement("div");
    row.className = "bar-row";
    const label = document.createElement("span");
    label.textContent = name;
    const bar = document.createElement("progress");
    bar.setAttribute("aria-label", name);
    const counts = document.createElement("span");
    counts.className = "muted";
    row.append(label, bar, counts);
    box.append(row);
    rows.set(name, row);
    return row;
  };

  // The browser opens a lost connection again by itself, with the number of the last event.
  const source = new EventSource(box.dataset.stream);
  source.addEventListener("progress", (event) => {
    const told = JSON.parse(event.data);
    const [, bar, counts] = rowOf(told.name).children;
    bar.max = told.total;
    bar.value = told.done;
    counts.textContent = `${told.done} of ${told.total}` + (told.error ? `, ${told.error} errors` : "");
  });
  source.addEventListener("notice", (event) => {
    document.getElementById("detail").textContent = JSON.parse(event.data).text;
  });
  source.addEventListener("state", (event) => {
    const told = JSON.parse(event.data);
    const state = document.getElementById("state");
    state.textContent = told.state;
    if (told.state === "queued" || told.state === "running") return;
    source.close();
    state.className = "badge " + ({ done: "pass", failed: "fail" }[told.state] || "inconclusive");
    document.getElementById("verdict").textContent = told.verdict ? `verdict: ${told.verdict}` : "";
    if (told.detail) {
      const detail = document.getElementById("detail");
      detail.className = "trouble";
      detail.textContent = told.detail;
    }
    if (told.result_id) {
      const link = document.createElement("a");
      link.className = "button";
      link.href = "/results/" + encodeURIComponent(told.result_id);
      link.textContent = "See the result";
      document.getElementById("result").replaceChildren(link);
    }
  });
})();
