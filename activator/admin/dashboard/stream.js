// @ts-check
/**
 * The event stream. The browser reconnects it after most errors; this module reconnects it after the
 * others, and closes the stream of a hidden page.
 */

/** Milliseconds until this module reconnects a closed stream. */
const REOPEN = 5000;
/** Milliseconds until a hidden page closes its stream: a browser has six connections to one activator
 * in all tabs together. */
const UNSEEN = 30_000;

const KINDS = [
  ...["pod-changed", "capacity-changed", "queue-began", "queue-ended"],
  ...["cold-start-finished", "failed"],
];

/**
 * The callbacks of a stream.
 * @typedef {object} Listener
 * @property {() => void} hello the stream is open and has all further events
 * @property {() => void} missed events were lost
 * @property {(event: import("./model.js").ActivatorEvent) => void} event an event
 * @property {() => void} broken the stream ended, or could not be opened
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

  /** Open the stream. */
  open() {
    clearTimeout(this.#reopening);
    const source = (this.#source = new EventSource("api/v1/events"));
    source.addEventListener("hello", () => this.listener.hello());
    source.addEventListener("lost", () => this.listener.missed());
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        this.listener.event({ kind, ...JSON.parse(event.data) });
      });
    }
    source.onerror = () => {
      this.listener.broken();
      if (source.readyState === EventSource.CLOSED) {
        this.#reopening = setTimeout(() => this.open(), REOPEN);
      }
    };
  }

  /** Report whether the page is visible. @param {boolean} seen */
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
