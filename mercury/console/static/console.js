// Keeps the page current: the same address, requested as server-sent events, sends its changing part.
// Without this script every page and action works; a page then shows the state at which it was loaded.
"use strict";
{
  // To the page before, also to a form with what was filled in.
  const back = document.getElementById("back");
  if (back && history.length > 1) {
    back.hidden = false;
    back.addEventListener("click", () => history.back());
  }
}
(() => {
  const light = document.getElementById("live");
  if (!light || !window.EventSource || !document.querySelector("main [data-live]")) return;
  let source = null;
  let latest = "";

  const show = (text, state) => {
    light.hidden = false;
    light.textContent = text;
    light.dataset.state = state;
  };

  // The part that has the focus or the selection stays as it is: a button does not become another one under the
  // finger, and the keyboard keeps its place.
  const busy = (element) => {
    const selection = document.getSelection();
    return (
      element.contains(document.activeElement) ||
      (selection && !selection.isCollapsed && element.contains(selection.anchorNode))
    );
  };

  const renew = (html) => {
    let whole = true;
    // A parsed document runs no script and loads nothing; what rows and peers have sent is escaped in it already.
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const element of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(element.id);
      if (!other || element.innerHTML === other.innerHTML) continue;
      if (busy(element)) {
        whole = false;
        continue;
      }
      const open = [...element.querySelectorAll("details[open]")].map((each) => each.id);
      element.replaceChildren(...document.importNode(other, true).childNodes);
      for (const id of open) {
        const details = id && document.getElementById(id);
        if (details) details.open = true;
      }
    }
    show(whole ? "live" : "live, but for the part in use", "on");
  };

  const end = () => {
    if (source) source.close();
    source = null;
  };

  const begin = () => {
    if (source) return;
    source = new EventSource(location.href.split("#")[0]);
    source.addEventListener("part", (event) => {
      latest = event.data;
      renew(latest);
    });
    source.addEventListener("stale", (event) => show(event.data, "off"));
    source.addEventListener("ended", () => {
      end();
      location.reload();
    });
    source.onerror = () => show(source && source.readyState === EventSource.CLOSED ? "not live" : "connecting", "off");
  };

  // The focus has left when the event is over.
  document.addEventListener("focusout", () => setTimeout(() => latest && renew(latest)));
  document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", () => document.hidden || begin());
})();
