// @ts-check
/**
 * The stream of events, opened again and again. The browser does so by itself while it can; this
 * does where it has given up, and closes the stream of a page that cannot be seen.
 */

/** After this a stream is opened anew that the browser has given up. */
const REOPEN = 5000;
/** A page that cannot be seen for so long needs no stream: browsers have six connections to one
 * activator, in all tabs together. */
const UNSEEN = 30_000;

const KINDS = [
  ...["pod-changed", "capacity-changed", "queue-began", "queue-ended"],
  ...["cold-start-finished", "failed"],
];

/**
 * Who is told.
 * @typedef {object} Listener
 * @property {() => void} hello a stream has begun: what happens from now on is told
 * @property {() => void} missed events were lost
 * @property {(event: import("./model.js").Happening) => void} told something happened
 * @property {() => void} broken the stream has ended, or there was none
 */

export class Stream {
  /** @type {EventSource | null} */
  #source = null;
  /** @type {number | undefined} */
  #reopening;
  /** @type {number | undefined} */
  #unseen;

  /** @param {Listener} listener */
  constructor(listener) {
    this.listener = listener;
  }

  /** Begin. */
  open() {
    clearTimeout(this.#reopening);
    const source = (this.#source = new EventSource("api/v1/events"));
    source.addEventListener("hello", () => this.listener.hello());
    source.addEventListener("lost", () => this.listener.missed());
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        this.listener.told({ kind, ...JSON.parse(event.data) });
      });
    }
    source.onerror = () => {
      this.listener.broken();
      if (source.readyState === EventSource.CLOSED) {
        this.#reopening = setTimeout(() => this.open(), REOPEN);
      }
    };
  }

  /** Take that the page can be seen again, or not any more. @param {boolean} seen */
  seen(seen) {
    clearTimeout(this.#unseen);
    if (!seen) this.#unseen = setTimeout(() => this.#close(), UNSEEN);
    else if (this.#source?.readyState === EventSource.CLOSED) {
      this.listener.missed();
      this.open();
    }
  }

  #close() {
    clearTimeout(this.#reopening);
    this.#source?.close();
  }
}
