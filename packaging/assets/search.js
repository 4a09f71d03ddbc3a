"use strict";
// Search in the documents. A page is complete without this script, which shows the field.
(() => {
  const form = document.querySelector("form");
  const field = form.querySelector("input");
  const list = form.querySelector("ol");
  const MOST = 20;
  let index = null;

  // The index is a script, because a page that was opened as a file may not fetch.
  function load() {
    index ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = "search-index.js";
      script.onload = () => resolve(documentIndex);
      script.onerror = () => reject(new Error("search-index.js is missing"));
      document.head.append(script);
    });
    return index;
  }

  // Splits a question as the index is split.
  function terms(question) {
    const words = question.toLowerCase().match(/[\p{Alphabetic}\p{N}_.-]+/gu) ?? [];
    return words.map((word) => word.replace(/^[._-]+|[._-]+$/g, "")).filter(Boolean);
  }

  // Says how well a section answers a term: 0 is not at all.
  function points(term, title, heading, words) {
    const inWords = ` ${words} `.includes(` ${term} `) ? 2 : Number(words.includes(term));
    return 10 * heading.toLowerCase().includes(term) + 5 * title.toLowerCase().includes(term) + inWords;
  }

  function find(pages, question) {
    const wanted = terms(question);
    const found = [];
    for (const [page, title, sections] of wanted.length ? pages : []) {
      for (const [anchor, heading, words] of sections) {
        const each = wanted.map((term) => points(term, title, heading, words));
        const sum = each.reduce((left, right) => left + right);
        if (!each.includes(0)) found.push({ href: `${page}#${anchor}`, title, heading, sum });
      }
    }
    return found.sort((left, right) => right.sum - left.sum).slice(0, MOST);
  }

  // Texts go into the page as texts, never as tags.
  function item({ href, title, heading }) {
    const [entry, link, small] = ["li", "a", "small"].map((tag) => document.createElement(tag));
    link.href = href;
    link.textContent = heading;
    small.textContent = heading === title ? "" : ` ${title}`;
    entry.append(link, small);
    return entry;
  }

  async function show() {
    const pages = await load();
    const found = find(pages, field.value);
    list.replaceChildren(...found.map(item));
    if (!found.length && field.value.trim()) list.append("Nothing found.");
  }

  // Moves between the field and the results.
  function step(by) {
    const places = [field, ...list.querySelectorAll("a")];
    places[places.indexOf(document.activeElement) + by]?.focus();
  }

  form.hidden = false;
  field.addEventListener("focus", load, { once: true });
  field.addEventListener("input", () => show().catch((error) => list.replaceChildren(error.message)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      step(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape") {
      field.value = "";
      list.replaceChildren();
      field.focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target === field) return;
    event.preventDefault();
    field.focus();
  });
})();
