"use strict";
// Live progress of a run. Without scripts, the reader reloads the page.
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

  // The browser reconnects by itself and sends the number of the last event.
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
      link.textContent = "Show the result";
      document.getElementById("result").replaceChildren(link);
    }
  });
})();
// On a phone the navigation is wider than the screen: scroll to the current page.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
// Voting: keys press the buttons, and drafts of comments are kept. Without scripts it is a plain form.
(() => {
  const ballot = document.querySelector("form.ballot");
  if (!ballot) return;
  const comment = ballot.querySelector("textarea");
  const saved = ballot.querySelector("[data-saved]");
  const draft = "draft:" + ballot.dataset.pair;
  const tell = (words) => { if (saved) saved.textContent = words; };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const pressed = ballot.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
    if (!pressed) return;
    event.preventDefault();
    pressed.click();
  });

  ballot.addEventListener("submit", (event) => {
    const skips = event.submitter && event.submitter.value === "skip";
    if (skips && !comment.value.trim()) {
      event.preventDefault();
      tell("· say why, then skip");
      comment.focus();
      return;
    }
    sessionStorage.removeItem(draft);
  });

  if (!comment.value) comment.value = sessionStorage.getItem(draft) || "";
  let timer = 0;
  const keep = async () => {
    if (!ballot.dataset.ballot || !ballot.dataset.answered) {
      sessionStorage.setItem(draft, comment.value);
      tell("· draft kept in this browser");
      return;
    }
    const answer = await fetch(ballot.dataset.ballot, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        "X-CSRF-Token": document.querySelector("meta[name=form-mark]").content,
      },
      body: JSON.stringify({
        token: ballot.dataset.pair,
        answered: ballot.dataset.answered,
        reason: comment.value.trim(),
      }),
    });
    tell(answer.ok ? "· comment saved" : "· comment not saved");
  };
  comment.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(keep, 500);
  });
})();
// Fill a text area from a file: the file is read in the browser and sent as text.
for (const area of document.querySelectorAll("textarea[data-pick]")) {
  const pick = document.createElement("input");
  pick.type = "file";
  pick.className = "pick";
  pick.setAttribute("aria-label", `File for ${area.name.split(":").pop()}`);
  pick.addEventListener("change", async () => {
    const [file] = pick.files;
    pick.setCustomValidity(file && file.size > 1_000_000 ? "larger than 1 MB: use the command" : "");
    if (pick.reportValidity() && file) area.value = await file.text();
  });
  area.after(pick);
}
