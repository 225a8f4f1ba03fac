// The theme: the system's, or the reader's choice. It is no module, so that it runs before the first
// paint and the page does not flash.
"use strict";

(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");

  /** Return the reader's choice; null for the system's theme, or without storage. */
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
      // Without storage, the choice holds only for this page.
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
    button.hidden = false; // it works only with scripts
    const other = () => (document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    const name = () => {
      button.textContent = other() === "dark" ? "Dark" : "Light";
      button.setAttribute("aria-label", `Switch to ${other()} colours`);
    };
    button.addEventListener("click", () => {
      // Choosing the system's theme means to follow the system again.
      const system = dark.matches ? "dark" : "light";
      choose(other() === system ? null : other());
    });
    document.addEventListener("themechange", name);
    name();
  });
})();
