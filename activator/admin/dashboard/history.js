// @ts-check
/** The last minutes, step by step, and what can be said of them. Pure. */

/**
 * Of one revision, or of all together: lists of one length, the oldest first. `queued` and
 * `inFlight` are the most at a time within a step, `outcomes` how many requests ended so in it.
 * @typedef {object} Past
 * @property {number[]} queued
 * @property {number[]} inFlight
 * @property {Record<string, number[]>} outcomes
 */

/**
 * @typedef {object} HistoryView
 * @property {number} stepSeconds
 * @property {number} steps
 * @property {string} time when the last step ended
 * @property {({namespace: string, name: string} & Past)[]} revisions
 * @property {Past} activator
 */

/** Seconds over which rates are told: long enough that one request is not a wave. */
export const RATE_SECONDS = 60;

/** Ends that are nobody's fault but the client's own, or no fault at all. */
const NO_ERRORS = ["served", "cancelled"];

/**
 * What happened within the last minute.
 * @typedef {object} Recent
 * @property {number} servedPerSecond
 * @property {number} errors how many ended neither served nor by their client
 * @property {boolean} busy whether there was a request at all
 * @property {[string, number][]} ends by outcome, without `served`; the most frequent first
 */

/**
 * @param {Past | null | undefined} past null of one in which nothing happened
 * @param {number} stepSeconds
 * @returns {Recent}
 */
export function recent(past, stepSeconds) {
  const steps = Math.max(1, Math.round(RATE_SECONDS / stepSeconds));
  /** @type {[string, number][]} */
  const sums = Object.entries(past?.outcomes ?? {}).map(([end, all]) => [
    end,
    sum(all.slice(-steps)),
  ]);
  const ended = new Map(sums.filter(([, n]) => n > 0));
  const known = Math.min(steps, past?.queued.length ?? 0) || 1;
  const happened = (/** @type {number[] | undefined} */ all) => sum((all ?? []).slice(-steps)) > 0;
  const bad = [...ended].filter(([end]) => !NO_ERRORS.includes(end));
  return {
    servedPerSecond: (ended.get("served") ?? 0) / (known * stepSeconds),
    errors: sum(bad.map(([, n]) => n)),
    busy: ended.size > 0 || [past?.queued, past?.inFlight].some(happened),
    ends: [...ended].filter(([end]) => end !== "served").sort((a, b) => b[1] - a[1]),
  };
}

/**
 * How far back it reaches, in seconds: an activator that was just started knows of no more.
 * @param {HistoryView} history
 */
export function reachOf({ activator, stepSeconds }) {
  return activator.queued.length * stepSeconds;
}

/**
 * @param {number[]} values @returns {{most: number, at: number}} the greatest, and its latest place
 */
export function peak(values) {
  let most = 0;
  let at = -1;
  values.forEach((value, place) => {
    if (value > 0 && value >= most) [most, at] = [value, place];
  });
  return { most, at };
}

/** @param {number[]} values */
export function sum(values) {
  return values.reduce((all, value) => all + value, 0);
}

/**
 * Whether a request was at a pod, or waited, in the last step: then the revision is busy, even if
 * no event has told so.
 * @param {Past} past
 */
export function busyAtLast(past) {
  return (past.inFlight.at(-1) ?? 0) > 0 || (past.queued.at(-1) ?? 0) > 0;
}

/**
 * The last minutes, moved on by newer steps. Steps that are told again have the newer value.
 * @param {HistoryView} old
 * @param {HistoryView} news its lists are shorter: of the newest steps alone
 * @returns {HistoryView | null} null if steps between the two are missing: ask for all
 */
export function movedOn(old, news) {
  const told = news.activator.queued.length;
  const passed = Math.round(
    (Date.parse(news.time) - Date.parse(old.time)) / (news.stepSeconds * 1000),
  );
  const kept = old.activator.queued.length - (told - passed);
  if (!(passed >= 0 && passed <= told && kept >= 0)) return null;
  const size = { kept, told, steps: news.steps };
  const before = new Map(old.revisions.map((one) => [`${one.namespace}/${one.name}`, one]));
  const after = new Map(news.revisions.map((one) => [`${one.namespace}/${one.name}`, one]));
  const all = new Map([...before, ...after]);
  const revisions = [...all].map(([key, { namespace, name }]) => {
    return { namespace, name, ...joined(before.get(key), after.get(key), size) };
  });
  return {
    ...news,
    revisions: revisions.filter(happens),
    activator: joined(old.activator, news.activator, size),
  };
}

/**
 * @param {Past | undefined} old
 * @param {Past | undefined} news
 * @param {{kept: number, told: number, steps: number}} size of each, and how many there can be
 * @returns {Past}
 */
function joined(old, news, { kept, told, steps }) {
  /** @param {number[] | undefined} a @param {number[] | undefined} b */
  const join = (a, b) =>
    [...(a ?? zeros(kept)).slice(0, kept), ...(b ?? zeros(told))].slice(-steps);
  const ends = new Set([...Object.keys(old?.outcomes ?? {}), ...Object.keys(news?.outcomes ?? {})]);
  const outcomes = [...ends].map((end) => [end, join(old?.outcomes[end], news?.outcomes[end])]);
  return {
    queued: join(old?.queued, news?.queued),
    inFlight: join(old?.inFlight, news?.inFlight),
    outcomes: Object.fromEntries(outcomes),
  };
}

/** @param {number} n @returns {number[]} */
function zeros(n) {
  return new Array(n).fill(0);
}

/** @param {Past} past */
function happens({ queued, inFlight, outcomes }) {
  return [queued, inFlight, ...Object.values(outcomes)].some((all) => all.some((n) => n > 0));
}
