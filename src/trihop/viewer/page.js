"use strict";
(() => {
  const { spans, meanings } = JSON.parse(document.getElementById("spans").textContent);
  const grid = document.querySelector("[role=treegrid]");
  const rows = [...grid.querySelectorAll(".span")];
  const levels = rows.map((row) => Number(row.getAttribute("aria-level")));
  const place = new Map(rows.map((row, number) => [row, number]));
  const find = document.getElementById("find");
  const found = document.getElementById("found");
  let here = 0;

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  // Moving: one row is in the tab order, the one that the reader is at.
  const go = (number) => {
    if (number === undefined || !rows[number]) return;
    rows[here].tabIndex = -1;
    here = number;
    rows[here].tabIndex = 0;
    rows[here].focus({ preventScroll: true });
    rows[here].scrollIntoView({ block: "nearest" });
  };
  const next = (from, step, fits = () => true) => {
    for (let number = from + step; number >= 0 && number < rows.length; number += step)
      if (!rows[number].hidden && fits(rows[number], number)) return number;
    return undefined;
  };
  const parent = (number) => next(number, -1, (_, other) => levels[other] < levels[number]);

  // Folding: a row is hidden if it does not fit what is looked for, or if a row above it is folded.
  let wanted = null;
  const show = () => {
    let folded = Infinity;
    rows.forEach((row, number) => {
      const under = levels[number] > folded;
      if (!under) folded = row.getAttribute("aria-expanded") === "false" ? levels[number] : Infinity;
      row.hidden = under || (wanted !== null && !wanted.has(number));
    });
    if (rows[here].hidden) {
      rows[here].tabIndex = -1;
      here = next(-1, 1) ?? 0;
      rows[here].tabIndex = 0;
    }
  };
  const fold = (number, open) => {
    rows[number].setAttribute("aria-expanded", String(open));
    show();
  };
  const folds = (number, open) => rows[number].getAttribute("aria-expanded") === String(!open);

  // Finding: rows whose name, notes or attributes have the text, and the rows they hang from.
  const words = (number) =>
    (rows[number].textContent + " " + spans[number].map((pair) => pair.join("=")).join(" ")).toLowerCase();
  const look = () => {
    const text = find.value.trim().toLowerCase();
    wanted = null;
    found.textContent = "";
    if (text) {
      wanted = new Set();
      let hits = 0;
      rows.forEach((_, number) => {
        if (!words(number).includes(text)) return;
        hits += 1;
        let level = levels[number];
        wanted.add(number);
        for (let above = number - 1; above >= 0 && level > 1; above -= 1)
          if (levels[above] < level) {
            level = levels[above];
            if (wanted.has(above)) break;
            wanted.add(above);
          }
      });
      found.textContent = hits === 1 ? "1 span" : `${hits} spans`;
    }
    show();
  };

  // Attributes, made when they are asked for.
  const line = (name, value) => {
    const row = element("tr");
    const key = element("th", name);
    key.scope = "row";
    const told = element("td", value);
    if (meanings[name]) told.append(" ", element("span", meanings[name], "about"));
    row.append(key, told);
    return row;
  };
  const detail = (number) => {
    const body = element("tbody");
    spans[number].forEach(([name, value]) => body.append(line(name, value)));
    const table = element("table");
    table.append(body);
    const cell = element("div", undefined, "detail");
    cell.setAttribute("role", "gridcell");
    cell.append(table);
    return cell;
  };
  const toggle = (number) => {
    const row = rows[number];
    const shown = row.querySelector(".detail");
    if (shown) shown.remove();
    else row.append(detail(number));
    row.classList.toggle("open", !shown);
  };

  const keys = {
    ArrowDown: () => go(next(here, 1)),
    ArrowUp: () => go(next(here, -1)),
    Home: () => go(next(-1, 1)),
    End: () => go(next(rows.length, -1)),
    PageDown: () => go(next(Math.min(here + 14, rows.length - 2), 1)),
    PageUp: () => go(next(Math.max(here - 14, 1), -1)),
    ArrowRight: () => (folds(here, true) ? fold(here, true) : go(next(here, 1, (_, other) => levels[other] > levels[here] && other === here + 1))),
    ArrowLeft: () => (folds(here, false) ? fold(here, false) : go(parent(here))),
    Enter: () => toggle(here),
    " ": () => toggle(here),
    e: () => go(next(here, 1, (row) => row.classList.contains("failed")) ?? next(-1, 1, (row) => row.classList.contains("failed"))),
    j: () => keys.ArrowDown(),
    k: () => keys.ArrowUp(),
  };
  grid.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  grid.addEventListener("click", (event) => {
    const row = event.target.closest(".span");
    if (!row || event.target.closest(".detail") || String(getSelection())) return;
    go(place.get(row));
    const name = event.target.closest(".name");
    if (name && event.offsetX < 24 && row.hasAttribute("aria-expanded")) fold(here, folds(here, true));
    else toggle(here);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target === find) {
      if (event.key === "Escape") {
        find.value = "";
        look();
        go(here);
      } else if (event.key === "Enter" || event.key === "ArrowDown") {
        event.preventDefault();
        go(next(-1, 1));
      }
    } else if (event.key === "/" && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      find.focus();
    } else if (event.target === document.body && keys[event.key] && /^(Arrow(Down|Up)|e|j|k)$/.test(event.key)) {
      event.preventDefault();
      if (event.key === "e") keys.e();
      else go(here);
    }
  });
  let waiting;
  find.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(look, 80);
  });
  document.querySelector(".finder").hidden = false;
})();
