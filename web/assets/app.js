"use strict";
// Pages work without script. It adds local times, changes as they happen, and output that is followed.
(() => {
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const exact = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });

  // Makes instants local; the title keeps the instant itself.
  function localize(root) {
    const today = new Date().toDateString();
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const form = time.parentElement?.classList.contains("line") ? exact : at.toDateString() === today ? clock : whole;
      time.title = time.dateTime;
      time.textContent = form.format(at);
    }
  }

  const status = document.getElementById("live");
  function say(text) {
    if (status && status.textContent !== text) status.textContent = text;
  }

  // --- Changes: after an event of fnd the page is read again, and parts that differ are exchanged.

  let isLive = "stream" in document.body.dataset;
  // A page that does not change is in use, too, as long as it is seen: it has a stream for that.
  const stream = document.body.dataset.stream ?? "/stream?since=now&kind=problem";
  const PAUSE = 2000;
  const OLD = "The page is not connected: what it shows may be old.";
  let events = null;
  let asked = 0;
  let planned = null;

  // What a person has in hand: it is found again in the new part.
  function handle(element) {
    return element && (element.getAttribute("href") || element.getAttribute("aria-label") || element.form?.getAttribute("action"));
  }

  function isInUse(part) {
    const selection = getSelection();
    const selects = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
    return selects || (part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea"));
  }

  function exchange(part, fresh) {
    const open = [...part.querySelectorAll("details")].map((details) => details.open);
    [...fresh.querySelectorAll("details")].forEach((details, place) => { details.open = Boolean(open[place]); });
    if (isInUse(part) || part.innerHTML === fresh.innerHTML) return;
    const scrolled = [...part.querySelectorAll(".scroll, pre")].map((element) => [element.scrollLeft, element.scrollTop]);
    const held = part.contains(document.activeElement) ? handle(document.activeElement) : null;
    part.replaceChildren(...fresh.childNodes);
    [...part.querySelectorAll(".scroll, pre")].forEach((element, place) => {
      [element.scrollLeft, element.scrollTop] = scrolled[place] ?? [0, 0];
    });
    if (held) [...part.querySelectorAll("a, button, [tabindex]")].find((element) => handle(element) === held)?.focus({ preventScroll: true });
  }

  async function refresh() {
    planned = null;
    asked = Date.now();
    try {
      const answer = await fetch(document.body.dataset.again ?? location.href, { cache: "no-store" });
      const typed = [...document.querySelectorAll("input, textarea")].some((field) => field.value !== field.defaultValue);
      // The page of the failure says what to do, and comes back by itself; what was typed would be lost.
      if (typed && !answer.ok) throw answer;
      if (!answer.ok) return location.reload();
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      localize(fresh);
      for (const part of document.querySelectorAll("[data-live]")) {
        const other = fresh.getElementById(part.id);
        if (other) exchange(part, other);
      }
      // The run has ended, and nobody follows: now its output is whole.
      const last = fresh.getElementById("output");
      const ended = button?.isConnected && last && !fresh.getElementById("follow");
      if (ended && !output) exchange(document.getElementById("output"), last);
      isLive = "stream" in fresh.body.dataset;
    } catch {
      say(OLD);
    }
  }

  function plan() {
    if (isLive) planned ??= setTimeout(refresh, Math.max(200, PAUSE - (Date.now() - asked)));
  }

  function open() {
    if (events) return;
    events = new EventSource(stream);
    events.onopen = () => {
      if (!isLive) return;
      say("Changes are shown as they happen.");
      plan(); // events from before the stream are on no page yet
    };
    events.onerror = () => {
      say(OLD);
      // A browser does not try again after a refusal.
      if (events?.readyState === EventSource.CLOSED) { close(); setTimeout(resume, 5000); }
    };
    for (const kind of (new URL(stream, location).searchParams.get("kind") ?? "").split(",")) events.addEventListener(kind, plan);
  }

  function close() {
    events?.close();
    events = null;
  }

  function resume() {
    if (document.hidden) return;
    plan();
    open();
  }

  // --- Follow: lines of a run as they come.

  const LINES = 5000;
  const button = document.getElementById("follow");
  const lines = document.getElementById("lines");
  let output = null;
  let waiting = [];

  function flush() {
    const isAtEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    for (const line of waiting) {
      const template = document.createElement("template");
      // The server has escaped it.
      template.innerHTML = line;
      localize(template.content);
      lines.append(template.content);
    }
    waiting = [];
    while (lines.childElementCount > LINES) lines.firstElementChild.remove();
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  }

  function add(line) {
    document.querySelector("#output .empty")?.remove();
    if (waiting.push(line) === 1) requestAnimationFrame(flush);
  }

  function follow(isOn) {
    button.setAttribute("aria-pressed", String(isOn));
    lines.setAttribute("aria-live", isOn ? "polite" : "off");
    output?.close();
    output = null;
    if (!isOn) return;
    // fnd sends the kept lines first, so that none is missing or there twice.
    lines.replaceChildren();
    waiting = [];
    output = new EventSource(button.dataset.follow);
    output.onmessage = (event) => add(event.data);
    output.addEventListener("end", () => { follow(false); button.hidden = true; plan(); });
    output.addEventListener("failed", (event) => { follow(false); say(`Following has ended: ${event.data}`); });
  }

  if (button && lines) {
    button.hidden = false;
    button.addEventListener("click", () => follow(button.getAttribute("aria-pressed") !== "true"));
    if ("auto" in button.dataset) {
      if (document.hidden) button.setAttribute("aria-pressed", "true");
      else follow(true);
    }
  }

  // A browser has few connections for a host: a hidden tab gives its own back.
  document.addEventListener("visibilitychange", () => {
    const follows = button?.getAttribute("aria-pressed") === "true";
    if (document.hidden) {
      close();
      // A page that nobody sees asks nothing; the one that is shown again asks at once.
      clearTimeout(planned);
      planned = null;
      output?.close();
      output = null;
    } else {
      resume();
      if (follows) follow(true);
    }
  });
  addEventListener("pagehide", close);
  localize(document);
  if (!document.hidden) open();
})();
