// Which colours: the system's, or what was chosen here. No module, so that it runs before the first
// paint and nothing flashes.
"use strict";

(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");

  /** What was chosen; null is whatever the system has, also where nothing may be stored. */
  function chosen() {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  }

  /** @param {string | null} theme */
  function choose(theme) {
    try {
      if (theme === null) localStorage.removeItem("theme");
      else localStorage.setItem("theme", theme);
    } catch {
      // It holds for this page, then.
    }
    show(theme);
  }

  /** @param {string | null} theme */
  function show(theme) {
    const now = theme ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "dark" : "light";
    document.dispatchEvent(new CustomEvent("themechange"));
  }

  show(chosen());
  dark.addEventListener("change", () => show(chosen()));

  addEventListener("DOMContentLoaded", () => {
    const button = /** @type {HTMLElement} */ (document.getElementById("theme"));
    button.hidden = false; // without scripts it would do nothing
    const other = () => (document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    const name = () => {
      button.textContent = other() === "dark" ? "Dark" : "Light";
      button.setAttribute("aria-label", `Switch to ${other()} colours`);
    };
    button.addEventListener("click", () => {
      // Who chooses what the system has goes with the system again.
      const system = dark.matches ? "dark" : "light";
      choose(other() === system ? null : other());
    });
    document.addEventListener("themechange", name);
    name();
  });
})();
