// Keeps the page current: the same address, requested as server-sent events, sends its changing part.
// Without this script every page and action works; a page then shows the state at which it was loaded.
"use strict";
(() => {
  const light = document.getElementById("live");
  if (!light || !window.EventSource || !document.querySelector("main [data-live]")) return;
  let source = null;

  const show = (text, state) => {
    light.hidden = false;
    light.textContent = text;
    light.dataset.state = state;
  };

  // What the user fills in or marks stays as it is.
  const busy = (element) => {
    const active = document.activeElement;
    const selection = document.getSelection();
    return (
      (element.contains(active) && active.matches("input, select, textarea")) ||
      (selection && !selection.isCollapsed && element.contains(selection.anchorNode))
    );
  };

  const renew = (html) => {
    // A parsed document runs no script and loads nothing; what rows and peers have sent is escaped in it already.
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const element of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(element.id);
      if (!other || busy(element) || element.innerHTML === other.innerHTML) continue;
      const open = [...element.querySelectorAll("details[open]")].map((each) => each.id);
      const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
      element.replaceChildren(...document.importNode(other, true).childNodes);
      for (const id of open) {
        const details = id && document.getElementById(id);
        if (details) details.open = true;
      }
      if (focused) document.getElementById(focused)?.focus();
    }
  };

  const end = () => {
    if (source) source.close();
    source = null;
  };

  const begin = () => {
    if (source) return;
    source = new EventSource(location.href.split("#")[0]);
    source.addEventListener("part", (event) => {
      renew(event.data);
      show("live", "on");
    });
    source.addEventListener("stale", (event) => show(event.data, "off"));
    source.addEventListener("ended", () => {
      end();
      location.reload();
    });
    source.onerror = () => show(source && source.readyState === EventSource.CLOSED ? "not live" : "connecting", "off");
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", () => document.hidden || begin());
})();
