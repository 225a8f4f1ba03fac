(() => {
  const steps = {asked: 1, listed: 2, probed: 3, busy: 3, failed: 0};
  let odd = 0;
  let timer = 0;
  let over = false;
  const reload = () => {
    if (over) return;  // another reload would lose the place of this one
    over = true;
    location.reload();
  };
  const show = (phase, left, reason) => {
    document.querySelectorAll(`[data-${phase}]`).forEach((each) => {
      const text = each.dataset[phase].replace("{}", reason);
      if (each.textContent !== text) each.textContent = text;
    });
    document.querySelectorAll("progress").forEach((each) => { each.value = steps[phase]; });
    const seconds = Number(left);
    const time = seconds < 90 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`;
    document.querySelectorAll("[data-forecast]").forEach((each) => {
      const { forecast, late, unknown } = each.dataset;
      each.textContent = seconds ? forecast.replace("{}", time) : (left === "late" && late) || unknown;
    });
  };
  const peek = async () => {
    if (over) return;
    try {
      const response = await fetch(location.pathname + location.search, {
        method: "HEAD", cache: "no-store", redirect: "manual", headers: {"Activator-Peek": "1"},
        signal: AbortSignal.timeout(10000),
      });
      const phase = response.headers.get("Activator-Phase");
      if (phase in steps) {
        odd = 0;
        const [reason] = (response.headers.get("Activator-Reason") ?? "").split(";");
        show(phase, response.headers.get("Activator-Forecast"), reason);
        if (phase === "failed") over = true;  // only the user knows whether to wait on
        if (phase === "busy") return reload();  // the request waits for its turn
      } else if (response.status < 500 || ++odd > 4) {
        return reload();
      }
    } catch {
      // The network or a proxy in front is away for a moment.
    }
    later();
  };
  const later = () => {
    clearTimeout(timer);
    if (!over) timer = setTimeout(peek, 2000);
  };
  // Browsers run the timers of a hidden tab once a minute.
  document.addEventListener("visibilitychange", () => { if (!document.hidden) peek(); });
  later();
})();
