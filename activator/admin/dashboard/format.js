// @ts-check
/** Numbers and times as people read them. Pure. */

/**
 * A time in seconds: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 07 min`, `3 d 4 h`.
 * @param {number} s not negative
 */
export function seconds(s) {
  if (s < 9.95) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** @param {number} s a duration into the past: `10 minutes`, `1 min 35 s` */
export function span(s) {
  return s >= 60 && s % 60 === 0 ? counted(s / 60, "minute") : seconds(s);
}

/**
 * A short time: in milliseconds below 0.1 s, with two decimals below 10 s, otherwise as `seconds`.
 * @param {number} s
 */
export function finely(s) {
  if (s < 0.0995) return `${(s * 1000).toFixed(s < 0.00995 ? 1 : 0)} ms`;
  return s < 9.995 ? `${s.toFixed(2)} s` : seconds(s);
}

/** @param {number} n 1234567 as `1,234,567` */
export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @param {number} n @param {string} one @param {string} [many] `1 pod`, `2 pods` */
export function counted(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** @param {number} r something per second, without the unit: `0`, `0.05`, `3.2`, `120` */
export function rate(r) {
  if (r === 0) return "0";
  if (r < 0.095) return r.toFixed(2);
  return r < 9.95 ? r.toFixed(1) : count(Math.round(r));
}

/** @param {number} n bytes: `812 B`, `3.1 KiB`, `64 MiB` */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let place = 0;
  while (n >= 1024 && place < units.length - 1) {
    n /= 1024;
    place += 1;
  }
  return `${place === 0 || n >= 9.95 ? Math.round(n) : n.toFixed(1)} ${units[place]}`;
}

/** @param {Date} when the time of day here, `14:02:11` */
export function clock(when) {
  return [when.getHours(), when.getMinutes(), when.getSeconds()].map(two).join(":");
}

/**
 * Return the time of day of a time on the clock of `performance.now`, which has no date.
 * @param {number} at in milliseconds
 * @param {number} now
 * @param {Date} [today] the time of day at `now`
 */
export function clockAt(at, now, today = new Date()) {
  return clock(new Date(today.getTime() - (now - at)));
}

/** @param {Date} when @param {Date} now the time of day, with the day if that is another */
export function moment(when, now) {
  if (when.toDateString() === now.toDateString()) return clock(when);
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())} ${clock(when)}`;
}

/** @param {number} n */
function two(n) {
  return String(n).padStart(2, "0");
}
